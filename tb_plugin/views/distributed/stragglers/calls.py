"""Columns of calls for straggler detection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.views.distributed.waiting import Waiting

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# an unknown lateness
UNKNOWN = np.iinfo(np.int64).min


@dataclass(frozen=True, eq=False)
class StragglerCalls:
    """Columns of n calls of all workers, each worker's in order of time."""

    worker: Int64
    step: Int64
    group: Int64
    stream: Int64
    two_ended: Bool
    """Point-to-point call: the receiver waits for the sender by design, so no rank is late."""
    start_ns: Int64
    dur_ns: Int64
    blocked_ns: Int64
    """Time of the call with no compute and no other call; all of it if unknown."""
    match: Int64
    waiting: Waiting
    lateness_ns: Int64
    """Start by corrected clocks minus the median of its collective; UNKNOWN if durations order the arrivals."""
    noise_ns: Int64
    """Error of the lateness: smaller values do not count."""
    level_ns: Int64
    """Start by corrected clocks minus the median of its collective, also if durations order the arrivals; UNKNOWN without
    clocks."""
    level_noise_ns: Int64
    """Error of ``level_ns``."""
    time_ns: Int64
    """Start by corrected clocks, on one axis; UNKNOWN for workers with unknown clocks."""
    excused_ns: Int64
    """Lateness that may come from a late profiler start, at the first collective that a worker recorded."""
