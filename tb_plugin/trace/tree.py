"""Nesting of events on a thread: who encloses whom, who was open when, and how much time is an event's own.

Traces are not trees: annotations cross Python frames, microsecond rounding makes a child outlive its parent. So an
event's parent is the latest-started event that encloses it whole; one that merely overlaps is never a parent, and the
row that crosses it is flagged and drawn on a row of its own. Nothing is discarded.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tb_plugin.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int16 = npt.NDArray[np.int16]
Bool = npt.NDArray[np.bool_]

_SMALL = 2**15


@dataclass(frozen=True, eq=False)
class Nesting:
    """How n rows nest. Columns are as long as the rows that were given.

    ``parent`` is a position among them (-1 = none), ``depth`` the row to draw on (no two open events share one),
    ``overlaps`` marks rows that partially overlap an open event.
    """

    parent: Int32
    depth: Int16
    overlaps: Bool


def segments(track: Int32) -> tuple[Int64, Int64]:
    """A stable order that groups rows by track, and the bounds of the groups in it (len = groups + 1)."""
    small = len(track) and track.min() >= -_SMALL and track.max() < _SMALL
    # numpy sorts 16-bit integers by their digits: linear, where a general sort is not.
    order = np.argsort(track.astype(np.int16) if small else track, kind="stable")
    grouped = track[order]
    bounds = (
        np.flatnonzero(np.concatenate(([True], grouped[1:] != grouped[:-1], [True]))) if len(track) else np.zeros(1)
    )
    return order, bounds.astype(np.int64)


def nest(track: Int32, start: Int64, end: Int64) -> Nesting:
    """Nesting of rows that are sorted by (start, longest first); rows of different tracks never nest."""
    n = len(start)
    parent = np.full(n, MISSING, np.int32)
    depth = np.zeros(n, np.int16)
    overlaps = np.zeros(n, np.bool_)
    order, bounds = segments(track)
    for low, high in pairwise(bounds.tolist()):
        rows = order[low:high]
        nesting = _nest_one(start[rows], end[rows])
        parent[rows] = np.where(nesting.parent == MISSING, MISSING, rows[nesting.parent])
        depth[rows] = nesting.depth
        overlaps[rows] = nesting.overlaps
    return Nesting(parent, depth, overlaps)


def _nest_one(start: Int64, end: Int64) -> Nesting:
    """Nesting on one track: at once where events nest cleanly, one by one in the stretches where they do not."""
    depth = _open_before(start, end)
    parent = _parents_by_depth(depth)
    overlaps = np.zeros(len(start), np.bool_)
    crossing = (parent != MISSING) & (end > end[parent])
    if crossing.any():
        # Where nothing is open, a new stretch begins; stretches are independent of each other.
        stretch = np.cumsum(depth == 0)
        firsts = np.searchsorted(stretch, np.unique(stretch[crossing]), side="left")
        lasts = np.searchsorted(stretch, np.unique(stretch[crossing]), side="right")
        for low, high in zip(firsts, lasts, strict=True):
            _nest_crossing(int(low), start[low:high], end[low:high], parent, depth, overlaps)
    return Nesting(parent.astype(np.int32), np.minimum(depth, 32767).astype(np.int16), overlaps)


def _open_before(start: Int64, end: Int64) -> Int64:
    """For each row, how many earlier rows are still open when it starts (= depth where events nest cleanly)."""
    n = len(start)
    position = np.arange(n)
    closed = np.searchsorted(np.sort(end), start, side="right")
    # ``closed`` also counts empty rows at the same instant that stand at or after this row: take them out.
    empty_until = np.concatenate(([0], np.cumsum(end == start)))
    same_start_end = np.searchsorted(start, start, side="right")
    depth: Int64 = position - (closed - (empty_until[same_start_end] - empty_until[position]))
    return depth


def _parents_by_depth(depth: Int64) -> Int64:
    """The last earlier row one level up, level by level."""
    parent = np.full(len(depth), MISSING, np.int64)
    by_depth = np.argsort(depth, kind="stable")
    levels = np.searchsorted(depth[by_depth], np.arange(depth.max(initial=0) + 2))
    for level in range(1, len(levels) - 1):
        above = by_depth[levels[level - 1] : levels[level]]
        here = by_depth[levels[level] : levels[level + 1]]
        if len(above) and len(here):
            index = np.searchsorted(above, here) - 1
            parent[here] = np.where(index >= 0, above[np.maximum(index, 0)], MISSING)
    return parent


def _nest_crossing(offset: int, start: Int64, end: Int64, parent: Int64, depth: Int64, overlaps: Bool) -> None:
    """One stretch with partial overlaps, event by event; writes into the columns from ``offset`` on."""
    open_rows: list[tuple[int, int, int]] = []  # (end, depth, row), by start
    for i, (s, e) in enumerate(zip(start.tolist(), end.tolist(), strict=True), start=offset):
        open_rows = [row for row in open_rows if row[0] > s]
        enclosing = next((k for k in range(len(open_rows) - 1, -1, -1) if open_rows[k][0] >= e), -1)
        parent[i] = open_rows[enclosing][2] if enclosing >= 0 else MISSING
        overlaps[i] = any(row[0] < e for row in open_rows)
        depth[i] = 1 + max((row[1] for row in open_rows), default=-1)
        open_rows.append((e, int(depth[i]), i))


def innermost(track: Int32, start: Int64, end: Int64, parent: Int32, at_track: Int32, at: Int64) -> Int32:
    """For each point (track, time): the latest-started row with start <= time < end, or -1.

    ``track, start, end, parent`` describe rows sorted by start with the ``parent`` of ``nest``. From the row that
    started last one climbs until an open one is met; no open row is skipped, because every row that is left out of an event's
    ancestors ends before that event does.
    """
    found = np.full(len(at), MISSING, np.int32)
    order, bounds = segments(track)
    at_order, at_bounds = segments(at_track)
    group_of = {int(track[order[low]]): (low, high) for low, high in pairwise(bounds.tolist())}
    for low, high in pairwise(at_bounds.tolist()):
        points = at_order[low:high]
        group = group_of.get(int(at_track[points[0]]))
        if group is None:
            continue
        rows = order[group[0] : group[1]]
        index = np.searchsorted(start[rows], at[points], side="right") - 1
        found[points] = np.where(index >= 0, rows[np.maximum(index, 0)], MISSING)
    return climb_to_open(found, end, parent, at)


def climb_to_open(row: Int32, end: Int64, parent: Int32, at: Int64) -> Int32:
    """From each row up its parents to the first that is still open at the time; -1 when there is none."""
    row = row.copy()
    if not len(end):
        return row
    while True:
        closed = (row != MISSING) & (end[row] <= at)
        if not closed.any():
            return row
        row[closed] = parent[row[closed]]


def self_time(start: Int64, end: Int64, parent: Int32) -> Int64:
    """Duration of each row less the time covered by its direct children, nanoseconds, never negative."""
    own = end - start
    child = np.flatnonzero(parent != MISSING)
    if not len(child):
        return own
    child = child[np.argsort(parent[child], kind="stable")]
    over = parent[child]
    crossing = np.concatenate(([False], (over[1:] == over[:-1]) & (start[child][1:] < end[child][:-1])))
    mixed = np.unique(over[crossing])
    simple = ~np.isin(over, mixed)
    # Sums stay below 2^53 ns (104 days), so float64 accumulates them exactly.
    covered = np.bincount(over[simple], weights=(end - start)[child[simple]], minlength=len(own)).astype(np.int64)
    for row in mixed:
        covered[row] = _covered(start, end, child[over == row])
    return own - covered


def _covered(start: Int64, end: Int64, rows: Int64) -> int:
    reach = np.maximum.accumulate(end[rows])
    before = np.concatenate(([start[rows[0]]], reach[:-1]))
    return int(np.maximum(reach - np.maximum(start[rows], before), 0).sum())


def inherit(value: Int32, parent: Int32) -> Int32:
    """Each row's own value, or that of its nearest ancestor that has one (-1 = none). Parents stand before children."""
    value, hop = value.copy(), parent.copy()
    while True:
        empty = (value == MISSING) & (hop != MISSING)
        if not empty.any():
            return value
        rows = np.flatnonzero(empty)
        value[rows], hop[rows] = value[hop[rows]], hop[hop[rows]]
