"""Calls of each worker in each step, one after the other, for whoever follows them from call to call."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.distributed.stragglers.arrivals import Met

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

NEVER = np.iinfo(np.int64).min // 2
"""Earlier than any time."""


def pairs_of(met: Met) -> tuple[Int64, Int64]:
    """Returns the rows of calls from one rank to another of which both ends are here, and the number of each one's pair."""
    rows = np.flatnonzero(met.two_ended & (met.match >= 0))
    _, which, times = np.unique(met.match[rows], return_inverse=True, return_counts=True)
    both = times[which] == 2
    return rows[both], np.unique(which[both], return_inverse=True)[1].astype(np.int64)


def events(lane: Int64, start: Int64, dur: Int64, lanes: int) -> tuple[Int64, Bool, Int64, Int64]:
    """Returns begins and ends of calls, those of each lane in order of time: its call, whether it is an end, and where
    those of each lane begin and end."""
    rows = np.flatnonzero(lane >= 0)
    call = np.concatenate((rows, rows))
    is_end = np.repeat([False, True], len(rows))
    # Who ends as another begins is over by then; a call that takes no time ends after it began.
    time = np.concatenate((start[rows], start[rows] + np.maximum(dur[rows], 1)))
    order = np.lexsort((~is_end, time, lane[call]))
    size = np.bincount(lane[call], minlength=lanes)
    stop = np.cumsum(size)
    return call[order], is_end[order], stop - size, stop
