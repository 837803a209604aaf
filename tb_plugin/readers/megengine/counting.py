"""Counters of a timeline: their names as MegEngine's own documents spell them, and what they count in."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from tb_plugin.readers.chrome.interning import Interner
from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.table import CounterEvents, CounterSeries

_SPELLED = {"gpu_usgae_ratio": "gpu_usage_ratio", "nr_redunant_tensor": "nr_redundant_tensor"}
"""Names that the writer misspells; files whose writer does not are read as well."""
_UNITS = {"gpu_usage_ratio": "%", "train_time_ratio": "%", "device_ahead_ms": "ms", "dtr_overhead_us": "us"}
_MEMORY = re.compile(r"^(?P<device>[a-z]+(?:\d+|x))(?::\d+)?[_ ]alloc_mem(?:_value)?$")


@dataclass(frozen=True, eq=False)
class Counted:
    """The counters, and what is known of their series."""

    events: CounterEvents
    series: CounterSeries


def counters_of(events: CounterEvents, interner: Interner) -> Counted:
    """Returns the counters with their names mended, their units, and the devices that they are about."""
    names = np.arange(len(interner.texts), dtype=np.int32)
    for name in np.unique(events.name).tolist():
        if spelled := _SPELLED.get(interner.texts[name]):
            names[name] = interner.text(spelled)
    events = replace(events, name=names[events.name])
    known: list[tuple[int, int, int, int, int]] = []
    for pid, name, series in np.unique(np.stack((events.pid, events.name, events.series)), axis=1).T.tolist():
        text = interner.texts[name]
        memory = _MEMORY.match(text)
        unit = "bytes" if memory else _UNITS.get(text)
        if unit is not None:
            device = interner.text(memory["device"]) if memory else MISSING
            known.append((pid, name, series, interner.text(unit), device))
    columns = np.array(known, np.int32).reshape(-1, 5).T
    return Counted(events, CounterSeries(*columns))
