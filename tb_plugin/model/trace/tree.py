"""Nesting of events on a thread: parents, active events and self time.

Events of a thread do not always nest. Annotations may overlap Python frames, and rounding to microseconds can move
the end of a child past the end of its parent. The parent of an event is the event that started last among the
events that enclose it completely. If an event partially overlaps another event, it is marked, and it is drawn at
another depth. No event is discarded.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Bool, Int16, Int32, Int64
from tb_plugin.lib.groupby import distinct_values, places_of, side_by_side, stable_order
from tb_plugin.model.trace.schema import MISSING

_SMALL = 2**15


class Nesting(msgspec.Struct, frozen=True, eq=False):
    """Nesting of rows, one value per row.

    ``parent`` is the index of the parent row (-1 = none). ``depth`` is the vertical position at which the row is
    drawn; rows that are active at the same time have different depths. ``overlaps`` is True for a row that
    partially overlaps an earlier row that is still active.
    """

    parent: Int32
    depth: Int16
    overlaps: Bool


def nest(track: Int32, start: Int64, end: Int64) -> Nesting:
    """Returns the nesting within each track. Rows must be sorted by start, then longest first."""
    n = len(start)
    order = stable_order(track)
    begin, finish = (time[order] for time in side_by_side((track, start), (track, end)))
    level = _open_before(begin, finish)
    above = _parents_by_depth(level)
    crossed = np.zeros(n, np.bool_)
    crossing = (above != MISSING) & (finish > finish[above])
    if crossing.any():
        # A new stretch begins where no row is open. Stretches are independent of each other.
        stretch = np.cumsum(level == 0)
        firsts = np.searchsorted(stretch, np.unique(stretch[crossing]), side="left")
        lasts = np.searchsorted(stretch, np.unique(stretch[crossing]), side="right")
        for low, high in zip(firsts, lasts, strict=True):
            _nest_crossing(int(low), begin[low:high], finish[low:high], above, level, crossed)
    parent, depth, overlaps = np.empty(n, np.int32), np.empty(n, np.int16), np.empty(n, np.bool_)
    parent[order] = np.where(above == MISSING, MISSING, order[above])
    depth[order] = np.minimum(level, _SMALL - 1)
    overlaps[order] = crossed
    return Nesting(parent, depth, overlaps)


def parents_among(parent: Int32, chosen: Int64) -> Int32:
    """Returns the parents that ``nest`` gives for the ``chosen`` rows (ascending) alone. No rows may partially overlap."""
    position = places_of(chosen, len(parent))
    hop = parent[chosen]
    while (out := np.flatnonzero((hop != MISSING) & (position[hop] == MISSING))).size:
        hop[out] = parent[hop[out]]
    return position[hop]


def _open_before(start: Int64, end: Int64) -> Int64:
    depth: Int64 = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    empty = end == start
    if empty.any():
        # Rows without duration at the same time, at or after a row, were counted as closed before it: correct that.
        until = np.concatenate(([0], np.cumsum(empty)))
        depth += until[np.searchsorted(start, start, side="right")] - until[:-1]
    return depth


def _parents_by_depth(depth: Int64) -> Int64:
    parent = np.full(len(depth), MISSING, np.int64)
    by_depth = stable_order(depth)
    levels = np.searchsorted(depth[by_depth], np.arange(depth.max(initial=0) + 2))
    for level in range(1, len(levels) - 1):
        above = by_depth[levels[level - 1] : levels[level]]
        here = by_depth[levels[level] : levels[level + 1]]
        if len(above) and len(here):
            index = np.searchsorted(above, here) - 1
            parent[here] = np.where(index >= 0, above[np.maximum(index, 0)], MISSING)
    return parent


def _nest_crossing(offset: int, start: Int64, end: Int64, parent: Int64, depth: Int64, overlaps: Bool) -> None:
    latest: list[tuple[int, int]] = []
    """Pairs (-end, row) of rows that end later than all rows after them, so the last row to outlive any time."""
    ends: list[int] = []
    deepest: list[tuple[int, int]] = []
    for i, (s, e) in enumerate(zip(start.tolist(), end.tolist(), strict=True), start=offset):
        while ends and ends[0] <= s:
            heappop(ends)
        while deepest and deepest[0][1] <= s:
            heappop(deepest)
        enclosing = bisect_left(latest, (1 - max(e, s + 1),)) - 1
        parent[i] = latest[enclosing][1] if enclosing >= 0 else MISSING
        overlaps[i] = bool(ends) and ends[0] < e
        depth[i] = level = 1 - deepest[0][0] if deepest else 0
        while latest and -latest[-1][0] <= e:
            latest.pop()
        latest.append((-e, i))
        heappush(ends, e)
        heappush(deepest, (-level, e))


def innermost_at(track: Int32, start: Int64, end: Int64, parent: Int32, at_track: Int32, at: Int64) -> Int32:
    """Returns, for each track and time, the active row that started last; -1 = none. Rows are sorted by start."""
    if not len(start):
        return np.full(len(at), MISSING, np.int32)
    begin, finish, when = side_by_side((track, start), (track, end), (at_track, at))
    order = stable_order(track)
    index = np.searchsorted(begin[order], when, side="right") - 1
    last = np.where(index >= 0, order[np.maximum(index, 0)], MISSING).astype(np.int32)
    # If the track has no earlier row, this is the last row of another track, which has already ended.
    return climb_to_open(last, finish, parent, when)


def climb_to_open(row: Int32, end: Int64, parent: Int32, at: Int64) -> Int32:
    """Returns each row, or its nearest ancestor, that is still active at the given time; -1 = none."""
    row = row.copy()
    if not len(end):
        return row
    while True:
        closed = (row != MISSING) & (end[row] <= at)
        if not closed.any():
            return row
        row[closed] = parent[row[closed]]


def latest_open(start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Returns all times of one track, and the row that started last among those active until the next time; -1 = none."""
    before = np.arange(len(start)) - 1
    short = np.arange(len(start))
    while len(short := short[(before[short] >= 0) & (end[before[short]] < end[short])]):
        before[short] = before[before[short]]
    time = distinct_values(start, end)
    row = np.searchsorted(start, time, side="right") - 1
    closed = np.arange(len(time))
    while len(closed := closed[(row[closed] >= 0) & (end[row[closed]] <= time[closed])]):
        row[closed] = before[row[closed]]
    return time, row


def self_time(start: Int64, end: Int64, parent: Int32, overlaps: Bool) -> Int64:
    """Returns durations minus the time covered by direct children, in nanoseconds. Children may overlap each other."""
    own = end - start
    child = np.flatnonzero(parent != MISSING)
    # Sums stay below 2^53 ns (104 days), so float64 accumulates them exactly.
    covered = np.bincount(parent[child], weights=own[child], minlength=len(own)).astype(np.int64)
    crossing = child[overlaps[child]]
    if len(crossing):
        # If two children overlap, the later one is flagged. Their common time counts once.
        mixed = np.zeros(len(own), np.bool_)
        mixed[parent[crossing]] = True
        child = child[mixed[parent[child]]]
        child = child[np.argsort(parent[child], kind="stable")]
        bounds = np.flatnonzero(np.diff(parent[child])) + 1
        for rows in np.split(child, bounds):
            covered[parent[rows[0]]] = _covered(start, end, rows)
    return own - covered


def _covered(start: Int64, end: Int64, rows: Int64) -> int:
    reach = np.maximum.accumulate(end[rows])
    before = np.concatenate(([start[rows[0]]], reach[:-1]))
    return int(np.maximum(reach - np.maximum(start[rows], before), 0).sum())


def inherit(value: Int32, parent: Int32) -> Int32:
    """Fills missing values from the nearest ancestor that has one; -1 = none. Parents precede their children."""
    value, hop = value.copy(), parent.copy()
    while True:
        empty = (value == MISSING) & (hop != MISSING)
        if not empty.any():
            return value
        rows = np.flatnonzero(empty)
        value[rows], hop[rows] = value[hop[rows]], hop[hop[rows]]


def roots_of(parent: Int32) -> Int32:
    """Returns the top-level row of each row. Parents precede their children."""
    return inherit(np.where(parent == MISSING, np.arange(len(parent)), MISSING).astype(np.int32), parent)
