"""Counters of a timeline: names, units and memory in use."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import CounterEvents, CounterSeries, MemoryEvents

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
