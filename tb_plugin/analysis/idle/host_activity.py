"""Innermost host activity at each time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from tb_plugin.analysis.blocking_calls import launch_tracks, waits_for_device
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import distinct_values, group, stable_order
from tb_plugin.lib.intervals import Ranges, contains, overlaps, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.steps.windows import STEP_NAME
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import latest_open

_HOST = (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.RUNTIME, EventKind.PYTHON, EventKind.MODULE)
# More pieces of time are added up in parts.
_MAX_PIECES = 1 << 14


class Host:
    """Innermost event of each thread over time, computed on first use, for events that overlap ``within``."""

    def __init__(self, trace: TraceTable, within: Ranges | None = None) -> None:
        self._trace = trace
        is_step = trace.strings.where(lambda text: STEP_NAME.match(text) is not None)[trace.name]
        rows = np.flatnonzero(of_kind(trace.kind, *_HOST) & ~is_step)
        if within is not None:
            rows = rows[overlaps(within, trace.start_ns[rows], trace.ends(rows))]
        self._rows = rows[stable_order(trace.track[rows])].astype(np.int32)
        self._bounds = np.searchsorted(trace.track[self._rows], np.arange(len(trace.tracks) + 1))
        self._known: dict[int, tuple[Int64, Int32]] = {}
        self.waits = waits_for_device(trace)

    def innermost(self, track: int) -> tuple[Int64, Int32]:
        """Returns the times at which the innermost event of a thread changes, and its row (-1 = none)."""
        if track not in self._known:
            trace, rows = self._trace, self._rows[self._bounds[track] : self._bounds[track + 1]]
            time, which = latest_open(trace.start_ns[rows], trace.ends(rows))
            row = np.append(rows, np.int32(MISSING))[which]
            changed = np.append(True, row[1:] != row[:-1])[: len(row)]
            self._known[track] = time[changed], row[changed]
        return self._known[track]

    def _names(self, rows: Int32) -> Int32:
        return np.append(self._trace.name, np.int32(MISSING))[rows]

    def main_activity(self, track: Int64, begin: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
        """Returns three arrays for each interval: the name (string id) that was innermost for the longest time, the
        duration of this time, and the row of the longest event with this name.

        -1 = no event. ``track`` is the thread of each interval (-1 = none).
        """
        name, row = np.full(len(track), MISSING, np.int64), np.full(len(track), MISSING, np.int64)
        time = np.zeros(len(track), np.int64)
        for thread in np.unique(track[track != MISSING]).tolist():
            mine = np.flatnonzero(track == thread)
            name[mine], time[mine] = self.longest_name(thread, begin[mine], end[mine])
            row[mine] = self.longest_event(thread, begin[mine], end[mine], name[mine])
        return name, time, row

    def main_activity_before(self, work: Int64, begin: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
        """Returns ``main_activity`` for the thread that launched each row, or for the one that requested the launch."""
        launched, asked = launch_tracks(self._trace, work)
        found = self.main_activity(launched, begin, end)
        turn = np.flatnonzero((found[0] == MISSING) & (asked != MISSING))
        for column, other in zip(found, self.main_activity(asked[turn], begin[turn], end[turn]), strict=True):
            column[turn] = other
        return found

    def longest_event(self, track: int, begin: Int64, end: Int64, name: Int64) -> Int64:
        """Returns, per interval, the row of the longest innermost event with this name (-1 for name -1)."""
        times, rows = self.innermost(track)
        found = np.full(len(begin), MISSING, np.int64)
        asked = np.flatnonzero(name != MISSING)
        if not len(asked):
            return found
        # Sorted by name, then time, so that entries of a name in an interval are contiguous.
        names, count = self._names(rows), len(times)
        order = stable_order(names)
        key = names[order].astype(np.int64) * count + order
        low = np.maximum(np.searchsorted(times, begin[asked], side="right") - 1, 0)
        high = np.searchsorted(times, end[asked], side="left")
        low, high = (np.searchsorted(key, name[asked] * count + at) for at in (low, high))
        # reduceat also reduces from each interval to the next one. In this order, that takes linear time.
        by_entry = stable_order(low)
        asked, bounds = asked[by_entry], np.column_stack((low[by_entry], high[by_entry])).ravel()
        by_length = np.argsort(self._trace.dur_ns[rows], kind="stable")
        rank = np.empty(count, np.int64)
        rank[by_length] = np.arange(count)
        best = np.maximum.reduceat(np.append(rank[order], 0), bounds)[::2]
        found[asked] = rows[by_length[best]]
        return found

    def longest_name(self, track: int, begin: Int64, end: Int64) -> tuple[Int64, Int64]:
        """Returns the longest innermost name (string id, -1 = none) and its time, for intervals that are not empty."""
        edges = distinct_values(begin, end)
        times, rows_innermost = self.innermost(track)
        names = self._names(rows_innermost)
        near = slice(*np.searchsorted(times, edges[[0, -1]]))
        points = distinct_values(times[near], edges)
        left, length = points[:-1], np.diff(points)
        asked = contains(union(begin, end), left)
        left, length = left[asked], length[asked]
        doing = np.append(names, np.int32(MISSING))[np.searchsorted(times, left, side="right") - 1]
        known, of = np.unique(doing, return_inverse=True)
        # Ties: the first name alphabetically, because ids depend on file order.
        by_text = np.argsort([text or "" for text in self._trace.strings.take(known).to_pylist()], kind="stable")
        known, of = known[by_text], np.argsort(by_text, kind="stable")[of.ravel()]
        first, count = _pieces_of(left, begin, end)
        best_name, best = np.full(len(begin), MISSING, np.int64), np.zeros(len(begin), np.int64)
        for some in _batches(count):
            interval = np.repeat(np.arange(some.start, some.stop), count[some])
            before = np.cumsum(count[some]) - count[some]
            piece = np.arange(len(interval)) + np.repeat(first[some] - before, count[some])
            named = group(interval, of[piece])
            spent, interval, name = named.sum(length[piece]), interval[named.first], of[piece[named.first]]
            order = np.lexsort((name, -spent, interval))
            top = order[np.append(True, np.diff(interval[order]) > 0)[: len(order)]]
            best_name[interval[top]], best[interval[top]] = known[name[top]], spent[top]
        return best_name, best


def _pieces_of(left: Int64, begin: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Returns the first piece in each interval, and the number of its pieces. ``left`` has the starts of all pieces."""
    first = np.searchsorted(left, begin)
    return first, np.searchsorted(left, end) - first


def _batches(count: Int64) -> Iterator[slice]:
    """Yields intervals that together have about _MAX_PIECES pieces."""
    batch = np.cumsum(count) // _MAX_PIECES
    edges = np.flatnonzero(np.diff(batch, prepend=-1, append=batch[-1:] + 1))
    yield from (slice(low, high) for low, high in itertools.pairwise(edges.tolist()))


@cached_by_argument
def host_of(trace: TraceTable) -> Host:
    return Host(trace)
