"""The shape of one event as msgspec decodes it.

Fields are lenient (Any) because real traces put strings where numbers belong; converting whole columns is cheaper
than strict types would be, and a surprise costs a slow column instead of an event. An absent integer is -1, an
absent float NaN.
"""

from __future__ import annotations

from typing import Any

import msgspec

ABSENT = msgspec.Raw(b"")
"""Default of raw fields. Compared by identity, which is what makes an absent column cheap to skip."""


NAN = float("nan")


class Args(msgspec.Struct, gc=False):
    """The arguments this package uses, of all kinds of events; others are skipped without being built."""

    external_id: Any = msgspec.field(default=-1, name="External id")
    external_id_old: Any = msgspec.field(default=-1, name="external id")
    correlation: Any = -1
    device: Any = None
    stream: Any = None
    # host operators and annotations
    call_stack: Any = msgspec.field(default=None, name="Call stack")
    sequence_number: Any = msgspec.field(default=-1, name="Sequence number")
    forward_thread: Any = msgspec.field(default=-1, name="Fwd thread id")
    input_dims: msgspec.Raw = msgspec.field(default=ABSENT, name="Input Dims")
    input_dims_old: msgspec.Raw = msgspec.field(default=ABSENT, name="Input dims")
    input_type: msgspec.Raw = msgspec.field(default=ABSENT, name="Input type")
    input_strides: msgspec.Raw = msgspec.field(default=ABSENT, name="Input Strides")
    concrete_inputs: msgspec.Raw = msgspec.field(default=ABSENT, name="Concrete Inputs")
    # Python calls
    python_id: Any = msgspec.field(default=-1, name="Python id")
    python_parent_id: Any = msgspec.field(default=-1, name="Python parent id")
    python_module_id: Any = msgspec.field(default=-1, name="Python module id")
    # device work
    grid: msgspec.Raw = ABSENT
    block: msgspec.Raw = ABSENT
    registers: Any = msgspec.field(default=-1, name="registers per thread")
    shared_memory: Any = msgspec.field(default=-1, name="shared memory")
    blocks_per_sm: Any = msgspec.field(default=NAN, name="blocks per SM")
    occupancy: Any = msgspec.field(default=NAN, name="est. achieved occupancy %")
    bytes: Any = -1
    # collectives
    collective: Any = msgspec.field(default=None, name="Collective name")
    dtype: Any = None
    in_elements: Any = msgspec.field(default=-1, name="In msg nelems")
    out_elements: Any = msgspec.field(default=-1, name="Out msg nelems")
    group_size: Any = msgspec.field(default=-1, name="Group size")
    group_name: Any = msgspec.field(default=None, name="Process Group Name")
    group_description: Any = msgspec.field(default=None, name="Process Group Description")
    group_ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    collective_sequence: Any = msgspec.field(default=-1, name="Seq")
    source_rank: Any = msgspec.field(default=-1, name="Src Rank")
    destination_rank: Any = msgspec.field(default=-1, name="Dst Rank")
    # allocator events
    memory_bytes: Any = msgspec.field(default=0, name="Bytes")
    address: Any = msgspec.field(default=0, name="Addr")
    total_allocated: Any = msgspec.field(default=-1, name="Total Allocated")
    total_reserved: Any = msgspec.field(default=-1, name="Total Reserved")
    device_type: Any = msgspec.field(default=-1, name="Device Type")
    device_id: Any = msgspec.field(default=-1, name="Device Id")
    # names of processes and threads
    name: Any = None
    labels: Any = None


class CounterArgs(Args, gc=False):
    """The arguments of a counter event: whatever it calls its series, and what it says of them."""

    series: dict[str, Any] = msgspec.field(default_factory=dict)


NO_ARGS = Args()
"""Stands for absent or null args. Never written to."""


class Event(msgspec.Struct, gc=False):
    """One event; times as msgspec reads JSON numbers (int, float or str)."""

    ph: str = ""
    cat: str | None = None
    name: str | None = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    id: Any = None
    args: Args | None = None


class DigitEvent(Event, gc=False):
    """One event whose times keep their digits, for files in which floats cannot hold the nanoseconds."""

    ts: msgspec.Raw = ABSENT
    dur: msgspec.Raw = ABSENT


NOT_DECODED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises on damaged text; brackets nested thousands deep are the last one."""

COUNTER = "C"
"""Phase of counter events."""


class _Arguments(msgspec.Struct, gc=False):
    ph: str = ""
    args: msgspec.Raw = ABSENT


_ARGUMENTS: msgspec.json.Decoder[list[_Arguments]] = msgspec.json.Decoder(list[_Arguments])


def with_series(events: list[Any], text: Any) -> list[Any]:
    """The events of a text, with the series of counters among them: their arguments have any name, so they are read again.

    Only a text that has counters is read twice.
    """
    if COUNTER in {event.ph for event in events}:
        for event, again in zip(events, _ARGUMENTS.decode(text), strict=True):
            if again.ph == COUNTER:
                event.args = CounterArgs(series=_series(again.args))
    return events


def _series(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except NOT_DECODED:  # a raw value was skipped over, not looked at
        return {}
    return value if isinstance(value, dict) else {}


FLOAT_DECODER: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(list[Event])
DIGIT_DECODER: msgspec.json.Decoder[list[DigitEvent]] = msgspec.json.Decoder(list[DigitEvent])
