"""Events and arguments of torch.profiler as msgspec Structs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from tb_plugin.formats._chrome.events import ABSENT, COUNTER, NAN, ChromeEvent, decoded_object
from tb_plugin.model.trace.schema import OUT_OF_MEMORY

MEMORY_NAME = "[memory]"
VALUELESS = "hardware_counters"  # PyTorch's Python exporter writes these counters without values
INSTANT_CATEGORY = "cpu_instant_event"


class Args(msgspec.Struct, gc=False):
    """Arguments that have a dedicated column, for events of all kinds."""

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
    size: Any = -1  # bytes of a copy, as named by another vendor
    direction: Any = None  # direction of a copy whose name does not contain it
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
    """Arguments of a counter event. Each argument is a series, with any name."""

    series: dict[str, Any] = msgspec.field(default_factory=dict)


NO_ARGS = Args()  # missing or null args; must not be modified


class Event(ChromeEvent, gc=False):
    args: Args | None = None


class DigitEvent(Event, gc=False):
    """An event whose times are undecoded digits, for files in which floats cannot represent the nanoseconds."""

    ts: msgspec.Raw = ABSENT
    dur: msgspec.Raw = ABSENT


class BoundEvent(Event, gc=False):
    """An event with flow arrows, from ``flow_out`` to ``flow_in`` of an event with the same ``bind_id``."""

    bind_id: Any = None
    flow_out: Any = None
    flow_in: Any = None


class BoundDigitEvent(DigitEvent, gc=False):
    bind_id: Any = None
    flow_out: Any = None
    flow_in: Any = None


class _Arguments(msgspec.Struct, gc=False):
    ph: str = ""
    args: msgspec.Raw = ABSENT


_ARGUMENTS: msgspec.json.Decoder[list[_Arguments]] = msgspec.json.Decoder(list[_Arguments])


def with_series(events: Sequence[Any], text: bytes | memoryview) -> Sequence[Event]:
    """Adds series to counter events. Text that contains no counters is not decoded again."""
    if COUNTER in [event.ph for event in events]:
        for event, again in zip(events, _ARGUMENTS.decode(text), strict=True):
            if again.ph == COUNTER:
                event.args = CounterArgs(series=decoded_object(again.args))
    return events


def arguments(text: bytes | memoryview) -> list[msgspec.Raw]:
    """Returns the undecoded arguments of all events that have arguments. Raises one of NOT_DECODED."""
    return [event.args for event in _ARGUMENTS.decode(text) if event.args is not ABSENT]


def detach(args: Args | None) -> Args | None:
    """Returns a copy that does not refer to the chunk's buffer."""
    if args is None:
        return None
    copied = {}
    for name in args.__struct_fields__:
        value = getattr(args, name)
        if isinstance(value, msgspec.Raw) and value is not ABSENT:
            value = msgspec.Raw(bytes(value))
        copied[name] = value
    return type(args)(**copied)


def merge_arguments(begun: Args | None, ended: Args | None) -> Args | None:
    """Merges the arguments of a begin event and its end event. Values of the end event win."""
    if begun is None or ended is None:
        return begun or ended
    combined: dict[str, Any] = {}
    for args in (begun, ended):
        absent = type(args)()
        fields = ((name, getattr(args, name)) for name in args.__struct_fields__)
        combined |= {name: value for name, value in fields if value is not getattr(absent, name)}
    merged: Args = _merged_kind(type(begun), type(ended))(**combined)
    return merged


@cache
def _merged_kind(one: type[Args], other: type[Args]) -> Any:
    """Returns a class with the fields of both. Fields are added while a file is read."""
    fields = msgspec.structs.fields(other)
    missing = [field for field in fields if field.name not in one.__struct_fields__]
    if not missing:
        return one
    return msgspec.defstruct(
        "MergedArgs", [(field.name, Any, field.default) for field in missing], bases=(one,), gc=False
    )


def is_instant(event: Event) -> bool:
    """Returns True for instants and counters with phase X, which Python's exporter and old Kineto releases write."""
    return event.cat in (INSTANT_CATEGORY, VALUELESS) or event.name in (MEMORY_NAME, OUT_OF_MEMORY)
