"""Levels of detail of the timeline, computed once.

Each level divides time into cells. A cell is four times as long as a cell of the next finer level. Adjacent events
on a line of the timeline are merged into one item if they are shorter than a cell and start in the same cell. Items
therefore depend only on the level, not on the viewport. Each cell contains complete cells of the next finer level,
so a level can be computed from any finer level.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.timeline.lanes import lane_of, lanes_of, tracks_of
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import group, stable_order
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit
from tb_plugin.payloads import TimelineTrack

# A cell of level 1 is 2**8 ns; level 0 only merges events of zero length.
FINEST_BITS = 8
FACTOR_BITS = 2
# Cells in a tile; one of level 0 is as long as one of level 1.
TILE_CELLS = 256
# Minimum rows of a group of lanes, which are sent together.
GROUP_ROWS = 24
_AFTER_ALL_TIMES = 1 << 62
# Longer than any trace.
MOST_NS = (1 << 63) - 1
# Deeper events share a row and may overlap.
_MAX_DEPTH = np.iinfo(np.int16).max


class Items(msgspec.Struct, frozen=True, eq=False):
    """Items of a level. Each item represents one event, or several adjacent events that are merged.

    ``first`` and ``last`` are the rows of the first and last event of an item. ``longest`` is the row of its
    longest event; if several are equally long, of the first of them. ``busy_ns`` is the sum of the durations.
    """

    first: Int32
    last: Int32
    longest: Int32
    count: Int32
    busy_ns: Int64

    def take(self, chosen: Int64 | slice) -> Items:
        return Items(*(getattr(self, name)[chosen] for name in Items.__struct_fields__))


def concatenate_items(several: Sequence[Items]) -> Items:
    return Items(*(np.concatenate([getattr(of, name) for of in several]) for name in Items.__struct_fields__))


class Level(msgspec.Struct, frozen=True, eq=False):
    """All items of a level; line i has ``bounds[i]`` to ``bounds[i + 1] - 1``. ``merged`` None: nothing is merged."""

    cell_ns: int
    bounds: Int64
    first: Int32
    merged: Items | None = None

    def items(self, trace: TraceTable, positions: Int64 | slice = slice(None)) -> Items:
        if self.merged is not None:
            return self.merged.take(positions)
        first = self.first[positions]
        return Items(first, first, first, np.ones(len(first), np.int32), trace.dur_ns[first])


class Pyramid(msgspec.Struct, frozen=True, eq=False, dict=True):
    """All levels of one trace. Line i of the timeline is drawn in lane ``lane[i]`` at depth ``depth[i]``."""

    trace: TraceTable
    lanes: list[TimelineTrack]
    lane: Int32
    depth: Int32
    # A level with more than half of the items of the one below is the same object.
    levels: list[Level]
    module: Int32 | None
    """For each Python row, the name (string id) of the innermost nn.Module; None without module calls."""

    @cached_property
    def groups(self) -> Int64:
        """Returns bounds: group g of lanes has the lines ``groups[g]`` to ``groups[g + 1] - 1``."""
        bounds = [0]
        for line in (np.flatnonzero(np.diff(self.lane, append=MISSING)) + 1).tolist():
            if line - bounds[-1] >= GROUP_ROWS or line == len(self.lane):
                bounds.append(line)
        return np.array(bounds, np.int64)

    def tile(self, level: int, group: int, number: int) -> tuple[Int64, Items]:
        """Returns the items of a group that overlap a tile, by line and time, and the line of each item."""
        start_ns, end_ns = (min((number + i) * tile_ns(level), _AFTER_ALL_TIMES) for i in range(2))
        lines = np.arange(self.groups[group], self.groups[group + 1])
        return self.items(self.levels[level], lines, start_ns, end_ns)

    def items(self, level: Level, lines: Int64, start_ns: int, end_ns: int) -> tuple[Int64, Items]:
        """Returns the items of lines that overlap a time range, by line and time, and the line of each item."""
        first, stop = self.places(level, lines, start_ns, end_ns)
        found = level.items(self.trace, np.concatenate([np.arange(*of) for of in zip(first, stop, strict=True)]))
        of_line = np.repeat(lines, stop - first)
        touches = np.flatnonzero((self.end_ns(found) > start_ns) | (self.start_ns(found) >= start_ns))
        return of_line[touches], found.take(touches)

    def places(self, level: Level, lines: Int64, start_ns: int, end_ns: int) -> tuple[Int64, Int64]:
        """Returns bounds of the positions of items that may overlap a time range, for each line."""
        # Table rows are sorted by time, so items are found by row without storing times. The type must match the
        # searched array, otherwise it would be copied.
        time = np.searchsorted(self.trace.start_ns, np.array((start_ns, end_ns), np.int64)).astype(np.int32)
        first, stop = np.empty(len(lines), np.int64), np.empty(len(lines), np.int64)
        for i, line in enumerate(lines.tolist()):
            begin, end = level.bounds[line : line + 2].tolist()
            place, last = np.searchsorted(level.first[begin:end], time).tolist()
            # The item before may overlap the range; if events may overlap, any earlier one.
            place = 0 if self.depth[line] == _MAX_DEPTH else max(place - 1, 0)
            first[i], stop[i] = begin + place, begin + last
        return first, np.maximum(first, stop)

    def start_ns(self, items: Items) -> Int64:
        return self.trace.start_ns[items.first]

    def end_ns(self, items: Items) -> Int64:
        return self.trace.start_ns[items.last] + self.trace.dur_ns[items.last]

    def modules(self, rows: npt.NDArray[np.integer]) -> Int32:
        """Returns the module name (string id) around each event or its launch (-1 = none)."""
        if self.module is None:
            return np.full(len(rows), MISSING, np.int32)
        trace = self.trace
        host = np.where(trace.launch[rows] != MISSING, trace.launch[rows], trace.operator[rows])
        host = np.where(host != MISSING, host, rows)
        python = np.isin(trace.kind[host], (EventKind.PYTHON, EventKind.MODULE))
        around = np.where(python, host, trace.python_parent[host])
        return np.where(around != MISSING, self.module[around], MISSING).astype(np.int32)


def cell_ns(level: int) -> int:
    return 1 if level == 0 else 1 << (FINEST_BITS + FACTOR_BITS * (level - 1))


def tile_ns(level: int) -> int:
    return TILE_CELLS * cell_ns(max(level, 1))


def build(trace: TraceTable) -> Pyramid:
    """Builds all levels. On the last level, the first tile covers the entire trace."""
    deepest = int(trace.depth.max(initial=0))
    # Four bytes per event instead of eight for arrays over all events.
    lines = group(lane_of(trace).astype(np.int64) * (deepest + 1) + trace.depth)
    # An event of each line, for the line's lane and depth.
    one = lines.first
    lanes = lanes_of(trace)
    place = lanes.places(trace, one).astype(np.int64)
    height = np.zeros(len(lanes.number), np.int64)
    np.maximum.at(height, place, trace.depth[one].astype(np.int64) + 1)
    order = np.lexsort((trace.depth[one], place))
    rank = np.empty(len(lines), np.int32)
    rank[order] = np.arange(len(lines), dtype=np.int32)
    line = rank[lines.of]
    rows = stable_order(line).astype(np.int32)
    line = line[rows]
    raw = Level(cell_ns(0), np.searchsorted(line, np.arange(len(lines) + 1)), rows)
    del line, lines, rank
    # Merge events of zero length, because millions of them may overlap.
    levels = [raw if trace.dur_ns.all() else _merged(trace, raw, cell_ns(0))]
    while tile_ns(len(levels) - 1) < trace.coverage.end_ns:
        levels.append(_merged(trace, levels[-1], cell_ns(len(levels)), worth=0.5))
    return Pyramid(
        trace,
        tracks_of(trace, lanes, height),
        place[order].astype(np.int32),
        trace.depth[one][order].astype(np.int32),
        levels,
        _modules(trace),
    )


def _merged(trace: TraceTable, level: Level, cell: int, worth: float = 1.0) -> Level:
    items = level.items(trace)
    if not len(items.first):
        return level
    narrow = (items.count > 1) | (items.busy_ns < cell)
    place = trace.start_ns[items.first] // cell
    merges = narrow[1:] & narrow[:-1] & (place[1:] == place[:-1])
    del place, narrow
    starts = np.concatenate(([True], ~merges))
    starts[level.bounds[:-1]] = True  # no line is empty
    first = np.flatnonzero(starts)
    if len(first) > worth * len(starts) or len(first) == len(starts):
        return level
    last = np.append(first[1:], len(starts)) - 1
    dur = trace.dur_ns[items.longest]
    # Position of the first maximum of each item: backwards, so that the first one is written last.
    group = np.cumsum(starts, dtype=np.int32) - 1
    hits = np.flatnonzero(dur == np.maximum.reduceat(dur, first)[group])[::-1]
    longest = np.empty(len(first), np.int32)
    longest[group[hits]] = items.longest[hits]
    merged = Items(
        first=items.first[first],
        last=items.last[last],
        longest=longest,
        count=np.add.reduceat(items.count, first).astype(np.int32),
        busy_ns=np.add.reduceat(items.busy_ns, first),
    )
    return Level(cell, np.searchsorted(first, level.bounds), merged.first, merged)


def _modules(trace: TraceTable) -> Int32 | None:
    is_module = trace.kind == EventKind.MODULE
    if not is_module.any():
        return None
    return inherit(np.where(is_module, trace.name, np.int32(MISSING)).astype(np.int32), trace.python_parent)


@cached_by_argument
def pyramid_of(trace: TraceTable) -> Pyramid:
    return build(trace)
