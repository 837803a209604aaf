"""Busy times of devices.

Idle time, idle gaps and device time are derived from these times.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import stable_order
from tb_plugin.lib.intervals import Ranges, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import DEVICE_WORK, of_kind
from tb_plugin.model.trace.table import TraceTable


@cached_by_argument
def covered_work(trace: TraceTable) -> Int64:
    """Returns the rows of device work that overlap the loaded window, because work after it is not fully loaded."""
    rows = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))
    start = trace.start_ns[rows]
    covered = (start <= trace.coverage.end_ns) & (start + trace.dur_ns[rows] >= trace.coverage.start_ns)
    found: Int64 = rows[covered]
    return found


@cached_by_argument
def device_busy(trace: TraceTable) -> Mapping[int, Ranges]:
    """Returns the busy time ranges of each device, by index into ``trace.devices`` (-1 = unknown)."""
    rows = covered_work(trace)
    order = stable_order(trace.device[rows])
    rows = rows[order]
    devices, first = np.unique(trace.device[rows], return_index=True)
    parts = np.split(rows, first[1:]) if len(rows) else []
    return {int(one): union(trace.start_ns[part], trace.ends(part)) for one, part in zip(devices, parts, strict=True)}
