"""Timeline: the events of a window as what can be drawn: no more than the screen resolves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin.analyses.base import OWN_ONLY, Missing, Model, Params, Part, Scope, answer_view
from tb_plugin.analyses.selection import chosen_steps, select_rows
from tb_plugin.analyses.timeline.pyramid import pyramid_of
from tb_plugin.errors import BadRequest
from tb_plugin.payloads import Table, Timeline, View
from tb_plugin.trace.schema import MISSING, EventKind
from tb_plugin.trace.table import TraceTable

WIDTH = 1600
NARROW_PIXELS = 2
"""Neighbours each narrower than this at the most are merged."""

CATEGORIES = [kind.name.lower() for kind in EventKind] + ["communication"]
COMMUNICATION = len(EventKind)


class TimelineAnalysis:
    """The timeline of a window."""

    id = "timeline"
    title = "Timeline"
    model: Model = "trace"
    scope: Scope = "profile"
    borrows = OWN_ONLY

    def missing(self, trace: TraceTable) -> Missing | None:
        """Needs any event."""
        return None if len(trace) else Missing("The trace holds no events.", "Record more than the profiler itself.")

    def part_key(self, params: Params) -> tuple[object, ...]:
        """Depends on the window and the resolution."""
        return (params.steps, *(params.get(key) for key in ("start_ns", "end_ns", "width")))

    def part(self, trace: TraceTable, params: Params) -> Part:
        """The drawing of the window. Raises BadRequest for a window that is none."""
        start, end = _window(trace, params)
        width = _number(params, "width", WIDTH, 100, 20_000)
        drawing = draw(trace, start, end, max(1, NARROW_PIXELS * (end - start) // width))
        return Part(select_rows(trace, params.steps).coverage, payloads={"timeline": drawing}, layout=("timeline",))

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """The drawing."""
        return answer_view(self, parts[0], params)


def _number(params: Params, key: str, default: int, low: int, high: int) -> int:
    text = params.get(key)
    if not text:
        return default
    try:
        return min(max(int(text), low), high)
    except ValueError as error:
        raise BadRequest(f"{key} must be a whole number.", key, f"Got {text[:40]!r}.") from error


def _window(trace: TraceTable, params: Params) -> tuple[int, int]:
    """The window asked for, else the chosen steps, else the first step, else everything."""
    first, last = trace.coverage.start_ns, trace.coverage.end_ns
    start, end = first, last
    steps = trace.steps
    if params.steps is not None:
        indices = chosen_steps(trace, params.steps)
        if indices:
            start, end = int(steps.start_ns[indices].min()), int(steps.end_ns[indices].max())
    elif steps.recorded and len(steps.label):
        start, end = int(steps.start_ns[0]), int(steps.end_ns[0])
    start = _number(params, "start_ns", start, first, last)
    end = _number(params, "end_ns", end, first, last)
    if end < start:
        raise BadRequest("The window ends before it starts.", "end_ns", f"start_ns={start}, end_ns={end}.")
    return start, max(end, start + 1)


def draw(trace: TraceTable, start: int, end: int, resolution_ns: int) -> Timeline:
    """Items of the level that fits ``resolution_ns`` (ns) which touch ``[start, end)``."""
    pyramid = pyramid_of(trace)
    level = pyramid.level_for(resolution_ns)
    items = pyramid.window(level, start, end)
    lane = pyramid.place[items.line]
    tracks, among = pyramid.lanes.among(lane)
    place = among[lane]
    order = np.lexsort((trace.depth[items.first], place))
    items, place = items.take(order), place[order]
    shown = items.longest
    begin = pyramid.start_ns(items)
    names, name = np.unique(trace.name[shown], return_inverse=True)
    category = np.where(
        trace.is_collective[shown] & (trace.kind[shown] == EventKind.KERNEL), COMMUNICATION, trace.kind[shown]
    )
    return Timeline(
        start_ns=start,
        end_ns=end,
        window_start_ns=trace.coverage.start_ns,
        window_end_ns=trace.coverage.end_ns,
        resolution_ns=pyramid.cell_ns(level),
        tracks=tracks,
        names=[trace.strings[int(i)] for i in names],
        categories=CATEGORIES,
        track=place.tolist(),
        row=trace.depth[shown].tolist(),
        start=begin.tolist(),
        dur=(pyramid.end_ns(items) - begin).tolist(),
        name=name.tolist(),
        category=category.tolist(),
        event=np.where(items.count > 1, MISSING, shown).tolist(),
        count=items.count.tolist(),
        busy_ns=items.busy_ns.tolist(),
        total_events=int(items.count.sum()),
    )
