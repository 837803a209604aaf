"""Critical path and slack on the timeline."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Params, Part, bounds_of, int_param
from tb_plugin.analysis.critical_path.steps import CriticalTime, critical_time, slack
from tb_plugin.analysis.filters import EVENT, event_of
from tb_plugin.analysis.metrics import SHARED, define
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.timeline.lanes import lanes_of
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, Figures, Metric, Payload
from tb_plugin.views.path_marks import VIEW

METRICS = SHARED.adding(
    define(
        "",
        "ns",
        {
            "slack_ns": ("Slack", "Longest delay of the start without a longer step. 0 = critical."),
            "path_ns": ("On the path", "Time of the event on the critical path."),
        },
    )
)
ROW = Metric("row", "Row", "count", "Row of the event in its lane.")
MOST_MARKS = 1_000
# Length of the marks of all rows divided by that of the path.
MOST_OVERLAP = 1.5
# More rows than a lane can have: depths have 16 bits.
_ROWS = 1 << 16
# Longer than any gap.
_FAR = 1 << 62


class PathMarks(DeclaredView, entry=VIEW):
    selects = "steps"
    own = ("start_ns", "end_ns", "min_ns", "event", "from_ns", "by")

    def part(self, trace: TraceTable, params: Params) -> Part:
        payloads: dict[str, Payload] = {}
        frames: dict[str, Frame] = {}
        event = event_of(trace, params.get("event")) if params.get("event") else None
        by = params.get("by")
        if event is not None:
            payloads["slack"] = _slack(trace, event)
        elif not by:
            frames["path_marks"] = _marks(trace, params)
        if by or event is None:
            frames["next"] = _next(trace, event, by, int_param(params, "from_ns") or 0)
        return Part(select_rows(trace, params.steps).coverage, {}, frames, payloads, (*payloads, *frames))


def _path(trace: TraceTable) -> CriticalTime:
    """Returns the pieces of the path that belong to an event, by start."""
    path = critical_time(trace)
    return path.take(path.row != MISSING)


def _marks(trace: TraceTable, params: Params) -> Frame:
    """Returns the path in a time range by lane and row, or by lane if rows alternate within ``min_ns``."""
    since, until = bounds_of(trace, params)
    path = _path(trace)
    path = path.take((path.end_ns > since) & (path.start_ns < until))
    lane, row = lanes_of(trace).places(trace, path.row).astype(np.int64), trace.depth[path.row].astype(np.int64)
    gap = int_param(params, "min_ns") or 0
    at, end = _joined(path, lane * _ROWS + row, gap)
    marked = int((end - path.start_ns[at]).sum())
    has_rows = len(at) <= MOST_MARKS and marked <= MOST_OVERLAP * int(path.ns.sum())
    if not has_rows:
        at, end = _joined(path, lane, gap, MOST_MARKS)
    data = {"lane": pa.array(lane[at]), "row": pa.array(row[at], mask=np.full(len(at), not has_rows))}
    data |= {"start_ns": pa.array(path.start_ns[at]), "dur_ns": pa.array(end - path.start_ns[at])}
    columns = [Column(METRICS["lane"]), Column(ROW), *METRICS.columns("start_ns", "dur_ns")]
    return Frame("path_marks", "Critical path", columns, pa.table(data), ("lane", "start_ns"), "lane")


def _joined(path: CriticalTime, place: Int64, gap: int, most: int | None = None) -> tuple[Int64, Int64]:
    """Joins pieces of a place over gaps up to ``gap``, and over longer gaps until at most ``most`` marks are left.

    The pieces are sorted by start. Returns the first piece and the end of each mark, by start.
    """
    order = np.argsort(place, kind="stable")
    place, end = place[order], path.end_ns[order]
    between = np.where(np.diff(place) != 0, _FAR, path.start_ns[order][1:] - end[:-1])
    if most is not None and len(between) >= most:
        gap = max(gap, min(int(np.partition(between, -most)[-most]), _FAR - 1))
    is_first = np.append(True, between > gap)[: len(place)]
    is_last = np.append(is_first[1:], True)[: len(place)]
    at, end = order[is_first], end[is_last]
    by_start = np.argsort(path.start_ns[at], kind="stable")
    return at[by_start], end[by_start]


def _slack(trace: TraceTable, event: int) -> Figures:
    path = _path(trace)
    mine = path.take(path.row == event)  # also gaps before the event, and latencies after it
    start, end = int(trace.start_ns[event]), int(trace.ends(np.array([event]))[0])
    inside = np.minimum(mine.end_ns, end) - np.maximum(mine.start_ns, start)
    known, spent = int(slack(trace)[event]), int(np.maximum(inside, 0).sum())
    figures = []
    if known != MISSING:
        figures.append(METRICS.figure("slack_ns", known, note="on the critical path" if spent and not known else ""))
    if spent:
        figures.append(METRICS.figure("path_ns", spent))
    return Figures("slack", "Critical path", "", figures)


def _next(trace: TraceTable, event: int | None, by: str | None, since: int) -> Frame:
    """Returns the event that the path reaches first after an event or a time, or the last one before."""
    if by not in (None, "", "1", "-1"):
        raise BadRequest("by is 1 or -1.", "by", f"Got {by[:40]!r}.")
    rows, start = _way(trace)
    at = np.flatnonzero(rows == event)
    since = since if event is None else int(trace.start_ns[event])
    # The place of the event on the path, or between two events.
    low, high = (at[0], at[0] + 1) if len(at) else (np.searchsorted(start, since),) * 2
    place = int(high) if by == "1" else int(low) - 1
    return _events(trace, rows[place : place + 1] if by and place >= 0 else rows[:0])


@cached_by_argument
def _way(trace: TraceTable) -> tuple[Int64, Int64]:
    """Returns the events on the path in the order in which the path reaches them, and the times at which it does."""
    path = _path(trace)
    rows, first = np.unique(path.row, return_index=True)
    order = np.argsort(first)
    return rows[order], path.start_ns[first[order]]


def _events(trace: TraceTable, rows: Int64) -> Frame:
    data = {
        "event": pa.array(rows),
        "lane": pa.array(lanes_of(trace).places(trace, rows)),
        "row": pa.array(trace.depth[rows]),
        "name": trace.strings.take(trace.name[rows]),
        "start_ns": pa.array(trace.start_ns[rows]),
        "dur_ns": pa.array(trace.dur_ns[rows]),
    }
    columns = [Column(EVENT), Column(METRICS["lane"]), Column(ROW), *METRICS.columns("name", "start_ns", "dur_ns")]
    return Frame("next", "Next event on the path", columns, pa.table(data), ("event",), "name")
