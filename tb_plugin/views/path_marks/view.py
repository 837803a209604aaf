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
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, Figures, Metric, Payload
from tb_plugin.views.path_marks import VIEW

METRICS = SHARED.adding(
    define(
        "",
        "ns",
        {
            "slack_ns": ("Slack", "Latest start minus start, if the step must not become longer."),
            "path_ns": ("On the path", "Time of the event on the critical path."),
        },
    )
)
ROW = Metric("row", "Row", "count", "Row of the event in its lane.")
MOST_MARKS = 5_000


class PathMarks(DeclaredView, entry=VIEW):
    selects = "steps"
    own = ("start_ns", "end_ns", "min_ns", "event", "from_ns", "by")

    def part(self, trace: TraceTable, params: Params) -> Part:
        path = critical_time(trace) if len(trace.steps.label) else None
        payloads: dict[str, Payload] = {}
        since = int_param(params, "from_ns")
        frames = {
            "path_marks": _marks(trace, path, params),
            "next": _next(trace, path, since, params.get("by") or "1"),
        }
        if event := params.get("event"):
            payloads["slack"] = _slack(trace, path, event_of(trace, event))
        return Part(select_rows(trace, params.steps).coverage, {}, frames, payloads, (*payloads, *frames))


def _marks(trace: TraceTable, path: CriticalTime | None, params: Params) -> Frame:
    """Returns the path in a time range. Marks of a lane are joined over short gaps."""
    none = np.empty(0, np.int64)
    lane, start, end = none, none, none
    if path is not None:
        since, until = bounds_of(trace, params)
        mine = np.flatnonzero((path.row != MISSING) & (path.end_ns > since) & (path.start_ns < until))
        lane = lanes_of(trace).places(trace, path.row[mine]).astype(np.int64)
        order = np.lexsort((path.start_ns[mine], lane))
        lane, start, end = lane[order], path.start_ns[mine][order], path.end_ns[mine][order]
        gap = int_param(params, "min_ns") or 0
        first = np.append(True, (np.diff(lane) != 0) | (start[1:] - end[:-1] > gap))[: len(lane)]
        last = np.append(first[1:], True)[: len(lane)]
        lane, start, end = lane[first], start[first], end[last]
        order = np.argsort(start, kind="stable")[:MOST_MARKS]
        lane, start, end = lane[order], start[order], end[order]
    data = {"lane": pa.array(lane), "start_ns": pa.array(start), "dur_ns": pa.array(end - start)}
    return Frame("path_marks", "Critical path", METRICS.columns(*data), pa.table(data), ("lane", "start_ns"), "lane")


def _slack(trace: TraceTable, path: CriticalTime | None, row: int) -> Figures:
    known = int(slack(trace)[row]) if path is not None else MISSING
    spent = int(path.ns[path.row == row].sum()) if path is not None else 0
    figures = [METRICS.figure("path_ns", spent)] if spent else []
    if known != MISSING:
        figures.insert(0, METRICS.figure("slack_ns", known))
    return Figures("slack", "Critical path", "", figures)


def _next(trace: TraceTable, path: CriticalTime | None, since: int | None, by: str) -> Frame:
    """Returns the event of the first piece of the path that starts after a time, or of the last one before."""
    if by not in ("1", "-1"):
        raise BadRequest("by is 1 or -1.", "by", f"Got {by[:40]!r}.")
    rows = np.empty(0, np.int64)
    if path is not None and since is not None:
        mine = np.flatnonzero(path.row != MISSING)
        starts = path.start_ns[mine]
        at = int(np.searchsorted(starts, since, side="right")) if by == "1" else int(np.searchsorted(starts, since)) - 1
        rows = path.row[mine[at : at + 1]] if at >= 0 else rows
    return _events(trace, rows)


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
