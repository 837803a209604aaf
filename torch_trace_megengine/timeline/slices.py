"""Slices from begin and end events, in file order within a lane.

Events are matched in file order, not by time. The profiler converts device times to the host's clock by
interpolation, so times may go backwards.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from tb_plugin.formats._chrome.pairing import matched_ends
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.model.trace.extra_columns import OpenColumn
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.tree import innermost_at, nest
from torch_trace_megengine.timeline.events import BEGIN, END, Events


class Slices(msgspec.Struct, frozen=True, eq=False):
    lane: Int32
    begin: Int64  # event index of the start
    end: Int64
    parent: Int32  # index of the enclosing slice, -1 for none
    unmatched: int  # number of unmatched events

    def __len__(self) -> int:
        return len(self.begin)

    def around(self, lane: Int32, position: Int64) -> Int32:
        """Returns, for each event index, the innermost slice that is open on the given lane; -1 = none."""
        return innermost_at(self.lane, self.begin, self.end, self.parent, lane, position)


def slices_of(events: Events, lane: Int32) -> Slices:
    marks = np.flatnonzero((events.phase == BEGIN) | (events.phase == END))
    begin, end = matched_ends(lane[marks], marks, events.phase[marks] == BEGIN)
    begin, end = marks[begin], marks[end]
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    of = lane[begin]
    return Slices(of, begin, end, nest(of, begin, end).parent, len(marks) - 2 * len(begin))


def integer_argument(column: OpenColumn | None, count: int) -> Int64:
    """Returns an argument of each event as an integer; -1 = missing."""
    found = np.full(count + 1, MISSING, np.int64)
    if column is not None and not column.is_text:
        with np.errstate(invalid="ignore"):
            found[column.row] = column.value.astype(np.int64)
    return found


def text_ids(column: OpenColumn | None, count: int) -> Int32:
    found = np.full(count + 1, MISSING, np.int32)
    if column is not None and column.is_text:
        found[column.row] = column.value
    return found


def columns_by_row(args: Mapping[str, OpenColumn], row_of: Int32) -> dict[str, OpenColumn]:
    """Converts columns from event to row indices. The value of the end event of a slice wins."""
    columns = {}
    for key, column in args.items():
        row = row_of[column.row]
        # The last value of a row wins. In reverse order, it is the first one, which ``unique`` returns.
        unique, first = np.unique(row[::-1], return_index=True)
        place = (len(row) - 1 - first)[unique != MISSING]
        if len(place):
            columns[key] = OpenColumn(key, row[place].astype(np.int32), column.value[place], column.is_text)
    return columns
