"""When devices work: what gaps, the partition of a device's time and the idle time of calls are measured against."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import stable_order
from tb_plugin.lib.intervals import Ranges, union
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import DEVICE_WORK, of_kind
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]


@remembered
def covered_work(trace: TraceTable) -> Int64:
    """Returns the rows of device work that touch what was opened.

    A trace that was opened as a window also holds what was launched in it and ran later, without what ran beside.
    """
    rows = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))
    start = trace.start_ns[rows]
    covered = (start <= trace.coverage.end_ns) & (start + trace.dur_ns[rows] >= trace.coverage.start_ns)
    found: Int64 = rows[covered]
    return found


@remembered
def device_busy(trace: TraceTable) -> Mapping[int, Ranges]:
    """Returns when each device (position in ``trace.devices``, -1 = none stated) runs a kernel, copy or set on any stream."""
    rows = covered_work(trace)
    order = stable_order(trace.device[rows])
    rows = rows[order]
    devices, first = np.unique(trace.device[rows], return_index=True)
    parts = np.split(rows, first[1:]) if len(rows) else []
    return {int(one): union(trace.start_ns[part], trace.ends(part)) for one, part in zip(devices, parts, strict=True)}
