"""Exposed time of single calls."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.groupby import sum_by
from tb_plugin.lib.intervals import Ranges, measure_within

Int64 = npt.NDArray[np.int64]


def blocked_ns(computing: Ranges, start: Int64, end: Int64) -> Int64:
    """Returns the time of each call without compute, excluding the part that belongs to a later call.

    A moment within several calls belongs to the one that started last (the last row if they started together), since waiting
    for an earlier call includes it. So no moment counts twice.
    """
    if not len(start):
        return np.zeros(0, np.int64)
    order = np.argsort(start, kind="stable")
    times = np.unique(np.concatenate((start, end)))
    left, right = times[:-1], times[1:]
    place = _last_open(end[order], np.searchsorted(start[order], left, side="right"), left)
    bare = right - left - measure_within(computing, left, right)
    owner = np.where(place >= 0, order[np.maximum(place, 0)], -1)
    return sum_by(owner, bare, len(start))


def _last_open(end: Int64, begun: Int64, time: Int64) -> Int64:
    """For each time the last of the first ``begun`` calls that ends after it; -1 = none.

    Uses the latest ends of runs of 1, 2, 4, ... calls to skip finished runs.
    """
    latest = [end]
    while (half := 1 << (len(latest) - 1)) * 2 <= len(end):
        latest.append(np.maximum(latest[-1][:-half], latest[-1][half:]))
    place = begun.copy()
    for level in range(len(latest) - 1, -1, -1):
        # Each level needs at most two skips.
        for _ in range(2):
            at = place - (1 << level)
            over = (at >= 0) & (latest[level][np.maximum(at, 0)] <= time)
            place = np.where(over, at, place)
    return place - 1
