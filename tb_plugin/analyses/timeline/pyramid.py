"""Levels of detail of a whole trace: what a window shows is looked up, not worked out from all events.

A level has cells of time, each four times as long as those of the level below. On one row, events shorter than a cell
that start in the same cell are one item; longer ones stand alone. So an item depends on the level alone, never on the
window that shows it, and cells of a level lie wholly in cells of the next: a level is made from any finer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.timeline.lanes import lane_of, lanes_of
from tb_plugin.trace.numbering import firsts, numbered
from tb_plugin.trace.table import TraceTable
from tb_plugin.trace.tree import stable_order

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

FINEST_BITS = 8
"""A cell of level 1 is 2**8 ns; level 0 is the events themselves."""
FACTOR_BITS = 2
_KEY_BITS = 62


@dataclass(frozen=True, eq=False)
class Items:
    """What a level draws, sorted by (row, start); items of a row do not overlap. Positions are those of the trace table.

    ``line`` numbers the rows of the drawing: lane and depth. ``first`` and ``last`` are the first and the last event of
    an item, ``longest`` the one that lasts longest (of equals the first), ``busy_ns`` the sum of the durations.
    """

    line: Int32
    first: Int32
    last: Int32
    longest: Int32
    count: Int32
    busy_ns: Int64

    def take(self, chosen: Int64) -> Items:
        """Some of the items."""
        return Items(*(getattr(self, name)[chosen] for name in Items.__dataclass_fields__))


class Pyramid:
    """The levels of one trace, each made when it is first looked at."""

    def __init__(self, trace: TraceTable) -> None:
        self._trace = trace
        deepest = int(trace.depth.max(initial=0))
        # Four bytes an event instead of eight, wherever it is about all of them.
        number, count = numbered(lane_of(trace).astype(np.int64) * (deepest + 1) + trace.depth)
        # An event of each line: it has the line's lane and depth.
        self.lanes, self.place = lanes_of(trace, firsts(number, count), np.bincount(number, minlength=count))
        """All lanes, and for each line the place of its lane among them."""
        line = number.astype(np.int32)
        del number
        order = stable_order(line).astype(np.int32)
        once = np.broadcast_to(np.int32(1), len(order))
        self._levels = {0: Items(line[order], order, order, order, once, trace.dur_ns[order])}
        self._keys: dict[int, tuple[Int64, Int64]] = {}
        # Times beside the line's number must fit one integer; where they do not, the search is coarser than a nanosecond.
        span_bits = int(trace.end_ns.max(initial=0)).bit_length() + 1
        self._shift = max(0, span_bits + count.bit_length() - _KEY_BITS)
        self._line_step = 1 << (span_bits - self._shift)

    @staticmethod
    def level_for(resolution_ns: int) -> int:
        """The coarsest level whose cells are no longer than a resolution."""
        return max(0, (resolution_ns.bit_length() - 1 - FINEST_BITS) // FACTOR_BITS + 1)

    @staticmethod
    def cell_ns(level: int) -> int:
        """Length of a level's cells; 1 ns on level 0, where nothing is merged."""
        return 1 if level == 0 else 1 << (FINEST_BITS + FACTOR_BITS * (level - 1))

    def level(self, level: int) -> Items:
        """All items of a level."""
        if level not in self._levels:
            finer = max(known for known in self._levels if known < level)
            self._levels[level] = self._merged(self._levels[finer], self.cell_ns(level))
        return self._levels[level]

    def window(self, level: int, start_ns: int, end_ns: int) -> Items:
        """The items of a level that touch ``[start_ns, end_ns)``, and those that end at its begin."""
        begins, ends = self._searchable(level)
        lines = np.arange(len(self.place), dtype=np.int64) * self._line_step
        low = np.searchsorted(ends, lines + self._place(start_ns), side="left")
        high = np.searchsorted(begins, lines + self._place(end_ns), side="right")
        length = np.maximum(high - low, 0)
        before = np.cumsum(length) - length
        found = self.level(level).take(np.arange(length.sum()) + np.repeat(low - before, length))
        # The search may find a little too much: its steps can be longer than a nanosecond.
        return found.take(np.flatnonzero((self.start_ns(found) < end_ns) & (self.end_ns(found) >= start_ns)))

    def start_ns(self, items: Items) -> Int64:
        """When items begin."""
        return self._trace.start_ns[items.first]

    def end_ns(self, items: Items) -> Int64:
        """When items end."""
        return self._trace.start_ns[items.last] + self._trace.dur_ns[items.last]

    def _merged(self, items: Items, cell_ns: int) -> Items:
        """Neighbours that are narrower than a cell and start in the same one become one item."""
        if not len(items.line):
            return items
        narrow = (items.count > 1) | (items.busy_ns < cell_ns)
        cell = self.start_ns(items) // cell_ns
        joined = narrow[1:] & narrow[:-1] & (cell[1:] == cell[:-1]) & (items.line[1:] == items.line[:-1])
        del cell, narrow
        starts = np.concatenate(([True], ~joined))
        first = np.flatnonzero(starts)
        last = np.append(first[1:], len(starts)) - 1
        dur = self._trace.dur_ns[items.longest]
        # Where the highest stands first in its item: backwards, so that the first one is written last.
        group = np.cumsum(starts, dtype=np.int32) - 1
        hits = np.flatnonzero(dur == np.maximum.reduceat(dur, first)[group])[::-1]
        longest = np.empty(len(first), np.int32)
        longest[group[hits]] = items.longest[hits]
        return Items(
            line=items.line[first],
            first=items.first[first],
            last=items.last[last],
            longest=longest,
            count=np.add.reduceat(items.count, first),
            busy_ns=np.add.reduceat(items.busy_ns, first),
        )

    def _searchable(self, level: int) -> tuple[Int64, Int64]:
        """Where a level's items begin and end, line after line, ascending."""
        if level not in self._keys:
            items = self.level(level)
            line = items.line.astype(np.int64) * self._line_step
            begins = line + (self.start_ns(items) >> self._shift)
            ends = line + (self.end_ns(items) >> self._shift)
            # Beyond the deepest row that can be numbered events share a row and may overlap.
            self._keys[level] = begins, np.maximum.accumulate(ends)
        return self._keys[level]

    def _place(self, time_ns: int) -> int:
        return min(max(0, time_ns) >> self._shift, self._line_step - 1)


@lru_cache(maxsize=2)
def pyramid_of(trace: TraceTable) -> Pyramid:
    """The pyramid of a trace; those of the last two stay."""
    return Pyramid(trace)
