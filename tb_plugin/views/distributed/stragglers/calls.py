"""The calls of a job as the search for stragglers sees them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.views.distributed.waiting import Waiting

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

UNKNOWN = np.iinfo(np.int64).min
"""Stands for a lateness that nobody knows."""


@dataclass(frozen=True, eq=False)
class StragglerCalls:
    """What is asked of n calls of all workers, each worker's in order of time."""

    worker: Int64
    step: Int64
    group: Int64
    """Code of the process group."""
    stream: Int64
    """Code of the stream, among those of the worker."""
    two_ended: Bool
    """A call from one rank to another: who receives waits for who sends by the plan of the program, and nobody is late."""
    start_ns: Int64
    dur_ns: Int64
    blocked_ns: Int64
    """Time of the call in which it alone keeps its worker from computing; all of it where nobody knows."""
    match: Int64
    waiting: Waiting
    lateness_ns: Int64
    """Start by corrected clocks less the median of its collective; UNKNOWN where durations say who came when."""
    noise_ns: Int64
    """How wrong lateness of its worker may be: less is no lateness."""
    level_ns: Int64
    """Start by corrected clocks less the median of its collective, also where durations say who came when; UNKNOWN where
    clocks do not tell."""
    level_noise_ns: Int64
    """How wrong that may be."""
    time_ns: Int64
    """Start by corrected clocks, on one axis; UNKNOWN for workers whose clock nobody knows."""
    excused_ns: Int64
    """Where the collective is the first one that a worker recorded: so much of its lateness says something of its profiler
    alone, which was started later than that of others."""
