"""Recorded arrows (flow events) and the events that they connect."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import group, side_by_side, stable_order
from tb_plugin.model.trace import tree
from tb_plugin.model.trace.links import rows_starting_at
from tb_plugin.model.trace.report import Issue, ReadReport
from tb_plugin.model.trace.rows import Rows
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import ArrowEnds, Arrows, Track


def tracks_at(strings: StringTable, tracks: Sequence[Track], pid: Int32, tid: Int32, *, on_device: bool) -> Int32:
    """Returns the host or device track of each pair of process id and thread id (both string ids); -1 = none."""
    by_ids = {
        (track.pid, track.tid): i
        for i, track in enumerate(tracks)
        if track.is_device == on_device and not track.is_async
    }
    ids = group(pid.astype(np.int64) * (len(strings) + 1) + tid)
    texts = [(strings[int(pid[i])], strings[int(tid[i])]) for i in ids.first.tolist()]
    found: Int32 = np.array([by_ids.get(text, MISSING) for text in texts], np.int32)[ids.of]
    return found


def bound(
    ends: ArrowEnds,
    strings: StringTable,
    rows: Rows,
    tracks: Sequence[Track],
    origin_ns: int,
    position: Int32 | None = None,
) -> tuple[Arrows, int]:
    """Attaches both ends of each arrow to rows. Returns the arrows, and the number of arrows that have an end at
    which no event is active.

    ``rows`` must be sorted by start, then longest first. ``position`` is the sorted index of each row in file order
    (-1 = excluded). As in Chrome's trace event format ("Flow events"), an event includes its start time but not its
    end time, unless its duration is zero.
    """
    if not len(ends.name):
        return Arrows(), 0
    nest = tree.nest(rows.track, rows.start, rows.end)

    def around(track: Int32, time: Int64) -> Int32:
        row = tree.innermost_at(rows.track, rows.start, rows.end, nest.parent, track, time)
        row[track == MISSING] = MISSING
        empty = np.flatnonzero(rows.end == rows.start)
        moment = rows_starting_at(rows.track, rows.start, empty, track, time)
        return np.where(moment == MISSING, row, moment).astype(np.int32)

    def end(pid: Int32, tid: Int32, time: Int64, to_next: npt.NDArray[np.bool_]) -> Int32:
        row = np.full(len(time), MISSING, np.int32)
        for on_device in (False, True):
            track = tracks_at(strings, tracks, pid, tid, on_device=on_device)
            found = np.where(to_next, _next(rows, track, time), around(track, time))
            row = np.where(row == MISSING, found, row).astype(np.int32)
        return row

    never = np.zeros(len(ends.name), np.bool_)
    tail = end(ends.start_pid, ends.start_tid, ends.start_time_ns - origin_ns, never)
    head = end(ends.end_pid, ends.end_tid, ends.end_time_ns - origin_ns, ends.to_next)
    tail = _with_named_rows(tail, ends.start_row, position)
    head = _with_named_rows(head, ends.end_row, position)
    hit = np.flatnonzero((tail != MISSING) & (head != MISSING))
    order = hit[np.lexsort((head[hit], tail[hit]))]
    return Arrows(tail[order], head[order], ends.name[order]), len(tail) - len(hit)


def _with_named_rows(row: Int32, stated: Int32, position: Int32 | None) -> Int32:
    if position is None or not len(stated):
        return row
    return np.where(stated == MISSING, row, position[stated]).astype(np.int32)


def _next(rows: Rows, track: Int32, time: Int64) -> Int32:
    begin, when = side_by_side((rows.track, rows.start), (track, time))
    order = stable_order(rows.track)
    place = np.searchsorted(begin[order], when, side="left")
    row = order[np.minimum(place, len(order) - 1)].astype(np.int32) if len(order) else np.zeros(len(time), np.int32)
    there = (place < len(order)) & (track != MISSING)
    there[there] = rows.track[row[there]] == track[there]
    return np.where(there, row, MISSING).astype(np.int32)


def report_with_arrows(report: ReadReport, unbound: int) -> ReadReport:
    """Returns the report with an additional issue about the arrows that could not be attached to rows."""
    if not unbound:
        return report
    text = "Arrows without an event at each end were skipped."
    return replace(report, issues=(*report.issues, Issue("unbound_arrow", "note", text, unbound)))
