"""Columns of calls for straggler detection."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.views.distributed.waiting import Waiting

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# an unknown lateness
UNKNOWN = np.iinfo(np.int64).min


class StragglerCalls(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Calls of all workers: one row per call, in time order within each worker."""

    worker: Int64
    step: Int64
    group: Int64
    stream: Int64
    two_ended: Bool
    """Marks point-to-point calls. Their receiver waits for the sender by design, so they have no late rank."""
    start_ns: Int64
    dur_ns: Int64
    blocked_ns: Int64
    """Time in the call during which no compute and no later call runs; the whole duration if unknown."""
    match: Int64
    waiting: Waiting
    lateness_ns: Int64
    """Corrected start minus the median start of the collective. UNKNOWN if durations are compared instead."""
    noise_ns: Int64
    """Error of ``lateness_ns``. Smaller differences are ignored."""
    level_ns: Int64
    """Corrected start minus the median start of the collective. UNKNOWN only if clocks are unknown."""
    level_noise_ns: Int64
    time_ns: Int64
    """Corrected start on the common time axis. UNKNOWN if the worker's clock is unknown."""
    excused_ns: Int64
    """Part of the lateness that a late profiler start may explain, for the first collectives of a worker."""
