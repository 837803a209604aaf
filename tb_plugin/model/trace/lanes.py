"""Timeline lanes for rows without a thread."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import number_groups, stable_order
from tb_plugin.model.trace import tree


def lanes(track: Int32, operation: npt.NDArray[np.integer], start: Int64, end: Int64) -> Int64:
    """Returns the lane of each row. Rows are sorted by start, then longest first. Operations of a track have equal height."""
    level = tree.nest(operation.astype(np.int32), start, end).depth.astype(np.int64)
    number, count = number_groups(operation)
    first = np.full(count, len(start), np.int64)
    np.minimum.at(first, number, np.arange(len(start)))
    last = np.zeros(count, np.int64)
    np.maximum.at(last, number, end)
    height = np.zeros(int(track.max(initial=-1)) + 1, np.int64)
    np.maximum.at(height, track, level + 1)
    order = np.argsort(first)
    taken = np.empty(count, np.int64)
    taken[order] = _first_free(track[first[order]], start[first[order]], last[order])
    return taken[number] * height[track] + level


def _first_free(track: Int32, start: Int64, end: Int64) -> Int64:
    found = np.zeros(len(start), np.int64)
    by_track = stable_order(track)
    reach = end[by_track]
    ordered = track[by_track]
    same = ordered[1:] == ordered[:-1]
    # On most tracks, operations do not overlap. Only the other tracks need the loop.
    crossing = np.unique(ordered[1:][same & (start[by_track][1:] < reach[:-1])])
    low, high = (np.searchsorted(ordered, crossing, side=side) for side in ("left", "right"))
    for first, last in zip(low.tolist(), high.tolist(), strict=True):
        rows = by_track[first:last]
        busy: list[tuple[int, int]] = []
        free: list[int] = []
        many = 0
        lane = []
        for begin, finish in zip(start[rows].tolist(), end[rows].tolist(), strict=True):
            while busy and busy[0][0] <= begin:
                heappush(free, heappop(busy)[1])
            if free:
                taken = heappop(free)
            else:
                taken, many = many, many + 1
            heappush(busy, (finish, taken))
            lane.append(taken)
        found[rows] = lane
    return found
