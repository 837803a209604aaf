"""Reader for MegEngine's timelines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.formats._chrome.document import Document
from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats._chrome.memory_estimate import peak_memory_bytes
from tb_plugin.formats._chrome.parse import Tally, no_events, report_of, single_pass
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.stream import TextStream
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import CounterEvents, CounterSeries, MemoryEvents, RawTrace
from torch_trace_megengine.profiler import MEGENGINE
from torch_trace_megengine.timeline import FORMATS, READER_ID
from torch_trace_megengine.timeline.events import Collected, Event, decode
from torch_trace_megengine.timeline.timeline import Timeline


class MegEngineReader(DeclaredReader, entry=FORMATS[0]):
    """Reads ``<pid>.chrome_timeline.json`` and the output of ``merge_trace_events``."""

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return peak_memory_bytes(sizes)

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawTrace:
        reading = _Reading(options)
        with single_pass(source, options, reading, decode, progress) as (document, stream):
            return reading.finish(document, stream)


class _Reading:
    def __init__(self, options: ReadOptions) -> None:
        self.log = IssueLog()
        self._rules = options.class_rules
        self._collected = Collected(self.log)
        self._has_phases = False

    def take(self, events: Sequence[Event], digits: bool, text_bytes: int) -> None:
        self._collected.add(events, digits)
        self._has_phases = self._has_phases or any(event.ph for event in events)

    def restart(self) -> None:
        self._collected = Collected(self.log)

    def state(self, fraction: float) -> ReadState:
        collected = self._collected
        # The kind of an event depends on other events, so it is unknown before the end.
        counts = {"counter": collected.counters.count, "other": collected.event_count - collected.counters.count}
        return ReadState(fraction, collected.event_count, {kind: count for kind, count in counts.items() if count})

    def check(self, is_bare_list: bool) -> None:
        if not self._has_phases and (is_bare_list or self._collected.event_count):
            raise no_events()

    def finish(self, document: Document, stream: TextStream) -> RawTrace:
        collected = self._collected
        counters = counters_of(collected.counters.take(), collected.interner)
        timeline = Timeline(collected.take(), collected.interner, collected.names.threads())
        columns = timeline.raw(self.log, self._rules)
        collected.interner.tell(self.log)
        tally = Tally(collected.event_count, timeline.count + collected.counters.count, {})
        return RawTrace(
            **columns,
            report=report_of(READER_ID, document, stream, self.log, tally),
            counters=counters.events,
            counter_series=counters.series,
            memory=counters.memory,
            process_names=collected.names.processes(),
            thread_names={**collected.names.threads(), **timeline.places.titles},
            metadata=document.metadata,
            base_time_ns=_local_time_ns(document.metadata, collected.local_times),
            recorder=MEGENGINE,
        )


def _local_time_ns(metadata: Mapping[str, Any], of_processes: Mapping[str, Any]) -> int | None:
    """Returns time 0 in nanoseconds since 1970, otherwise the earliest time 0 of a process."""
    own = metadata.get("metadata")
    stated = own.get("localTime") if isinstance(own, dict) else None
    found = [_integer(value) for value in ([stated] if stated is not None else of_processes.values())]
    return min((value for value in found if value is not None), default=None)


def _integer(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


# names that the writer misspells; correct names also work
_CORRECT_NAMES = {"gpu_usgae_ratio": "gpu_usage_ratio", "nr_redunant_tensor": "nr_redundant_tensor"}
_UNITS = {"gpu_usage_ratio": "%", "train_time_ratio": "%", "device_ahead_ms": "ms", "dtr_overhead_us": "us"}
_MEMORY = re.compile(r"^(?P<device>(?P<type>[a-z]+?)(?P<number>\d+|x))(?::\d+)?[_ ]alloc_mem(?:_value)?$")
_TYPES = {"cpu": 0, "gpu": 1, "rocm": 6}
_OTHER_TYPE = 20  # device type numbers are those of MemoryEvents
MOST_DEVICES = 1 << 15


class Counted(msgspec.Struct, frozen=True, eq=False):
    """Counters, with the device and unit of each series."""

    events: CounterEvents
    series: CounterSeries
    memory: MemoryEvents  # memory in use per device, without the allocations


def counters_of(events: CounterEvents, interner: Interner) -> Counted:
    """Returns the counters with corrected names, and the device and unit of each series."""
    names = np.arange(len(interner.texts), dtype=np.int32)
    for name in np.unique(events.name).tolist():
        if spelled := _CORRECT_NAMES.get(interner.texts[name]):
            names[name] = interner.text(spelled)
    events = replace(events, name=names[events.name])
    # The argument's name is always "value", so the series takes the counter's name.
    events = replace(events, series=np.where(events.series == interner.names["value"], events.name, events.series))
    known: list[tuple[int, int, int, int, int]] = []
    levels: list[MemoryEvents] = []
    for pid, name, series in np.unique(np.stack((events.pid, events.name, events.series)), axis=1).T.tolist():
        text = interner.texts[name]
        memory = _MEMORY.match(text)
        unit = "bytes" if memory else _UNITS.get(text)
        if unit is not None:
            device = interner.text(memory["device"]) if memory else MISSING
            known.append((pid, name, series, interner.text(unit), device))
        if memory:
            is_series = (events.pid == pid) & (events.name == name) & (events.series == series)
            number = int(memory["number"]) if memory["number"] != "x" else 0
            levels.append(
                _levels(events, is_series, _TYPES.get(memory["type"], _OTHER_TYPE), min(number, MOST_DEVICES))
            )
    columns = np.array(known, np.int32).reshape(-1, 5).T
    joined = (
        {f: np.concatenate([getattr(each, f) for each in levels]) for f in MemoryEvents.__struct_fields__}
        if levels
        else {}
    )
    return Counted(events, CounterSeries(*columns), MemoryEvents(**joined))


def _levels(events: CounterEvents, is_series: npt.NDArray[np.bool_], kind: int, number: int) -> MemoryEvents:
    at = np.flatnonzero(is_series & (events.value >= 0) & (events.value < 2.0**60))
    none, nothing = np.full(len(at), MISSING, np.int64), np.zeros(len(at), np.int64)
    return MemoryEvents(
        time_ns=events.time_ns[at],
        bytes=nothing,
        address=nothing,
        total_allocated=events.value[at].astype(np.int64),
        total_reserved=none,
        device_type=np.full(len(at), kind, np.int32),
        device_id=np.full(len(at), number, np.int32),
        pid=events.pid[at],
        tid=events.tid[at],
    )
