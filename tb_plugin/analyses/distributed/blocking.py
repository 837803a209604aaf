"""For how long each call alone keeps its worker from computing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.trace.intervals import Ranges, measure_within, subtract, union

Int64 = npt.NDArray[np.int64]


def blocked_ns(computing: Ranges, start: Int64, end: Int64, group: Int64) -> Int64:
    """Returns of each call the time in which nothing computes, less calls of other groups that began after it.

    What waits for an asynchronous call and, meanwhile, for another one, waits for the later one: it was asked for last. Calls
    of one group follow each other. ``group`` has a small number for each call.
    """
    sets = [union(start[group == one], end[group == one]) for one in range(int(group.max(initial=-1)) + 1)]
    bare = [subtract(each, computing) for each in sets]
    found = np.zeros(len(start), np.int64)
    for mine, own in enumerate(bare):
        rows = np.flatnonzero(group == mine)
        found[rows] = measure_within(own, start[rows], end[rows])
        for other, rest in enumerate(bare):
            if other != mine and len(rest):
                theirs = np.sort(start[group == other])
                later = np.searchsorted(theirs, start[rows], side="right")
                begin = np.append(theirs, np.iinfo(np.int64).max)[later]
                reach = np.minimum(begin, end[rows])
                found[rows] -= measure_within(rest, reach, end[rows])
    return np.maximum(found, 0)
