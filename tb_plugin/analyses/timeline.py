"""Timeline: the events of a window as what can be drawn: no more than the screen resolves."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.base import OWN_ONLY, Missing, Model, Params, Part, Scope, answer_view
from tb_plugin.analyses.selection import chosen_steps, select_rows
from tb_plugin.errors import BadRequest
from tb_plugin.payloads import Table, Timeline, TimelineTrack, View
from tb_plugin.trace.schema import MISSING, EventKind
from tb_plugin.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]

WIDTH = 1600
NARROW_PIXELS = 2
"""Neighbours each narrower than this are merged."""

HOST, PYTHON, DEVICE, DEVICE_NOTE, SYNC, OTHER = range(6)
_GROUP = {
    EventKind.OPERATOR: HOST,
    EventKind.ANNOTATION: HOST,
    EventKind.RUNTIME: HOST,
    EventKind.PYTHON: PYTHON,
    EventKind.MODULE: PYTHON,
    EventKind.KERNEL: DEVICE,
    EventKind.MEMCPY: DEVICE,
    EventKind.MEMSET: DEVICE,
    EventKind.DEVICE_ANNOTATION: DEVICE_NOTE,
    EventKind.SYNC: SYNC,
}
GROUP_OF_KIND = np.array([_GROUP.get(kind, OTHER) for kind in EventKind], np.int64)
_SUBTITLE = {
    HOST: "operators, runtime",
    PYTHON: "Python",
    DEVICE: "",
    DEVICE_NOTE: "annotations",
    SYNC: "waits",
    OTHER: "profiler, other",
}

THREAD_NAME = re.compile(r"thread -?\d+ \((.+)\)$")
"""How Kineto names host threads: the number is known, what matters stands in the parentheses."""

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
    """Events that touch ``[start, end)``, neighbours narrower than ``resolution_ns`` merged. Vectorised, n log n."""
    visible = np.flatnonzero((trace.start_ns < end) & (trace.end_ns >= start))
    lanes, track = _tracks(trace, visible)
    order = np.lexsort((trace.start_ns[visible], trace.depth[visible], track))
    rows, track = visible[order], track[order]
    first, count = _merge(trace, rows, track, resolution_ns)
    busy = np.add.reduceat(trace.dur_ns[rows], first) if len(first) else np.empty(0, np.int64)
    bucket_end = np.maximum.reduceat(trace.end_ns[rows], first) if len(first) else np.empty(0, np.int64)
    head = rows[first]
    names, name = np.unique(trace.name[head], return_inverse=True)
    category = np.where(
        trace.is_collective[head] & (trace.kind[head] == EventKind.KERNEL), COMMUNICATION, trace.kind[head]
    )
    return Timeline(
        start_ns=start,
        end_ns=end,
        window_start_ns=trace.coverage.start_ns,
        window_end_ns=trace.coverage.end_ns,
        resolution_ns=resolution_ns,
        tracks=lanes,
        names=[trace.strings[int(i)] for i in names],
        categories=CATEGORIES,
        track=track[first].tolist(),
        row=trace.depth[head].tolist(),
        start=trace.start_ns[head].tolist(),
        dur=(bucket_end - trace.start_ns[head]).tolist(),
        name=name.tolist(),
        category=category.tolist(),
        event=np.where(count > 1, MISSING, head).tolist(),
        count=count.tolist(),
        busy_ns=busy.tolist(),
        total_events=len(rows),
    )


def _merge(trace: TraceTable, rows: Int64, track: Int64, resolution_ns: int) -> tuple[Int64, Int64]:
    """Where each bucket begins among the rows, and how many it holds.

    Narrow events whose starts fall into the same cell of the resolution grid, on the same row, are one bucket, so that
    an event's bucket does not depend on its neighbours; wide events stand alone.
    """
    if not len(rows):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    narrow = trace.dur_ns[rows] < resolution_ns
    cell = trace.start_ns[rows] // resolution_ns
    depth = trace.depth[rows]
    same = (track[1:] == track[:-1]) & (depth[1:] == depth[:-1]) & (cell[1:] == cell[:-1]) & narrow[1:] & narrow[:-1]
    first = np.flatnonzero(np.concatenate(([True], ~same)))
    return first, np.diff(np.concatenate((first, [len(rows)])))


def _tracks(trace: TraceTable, rows: Int64) -> tuple[list[TimelineTrack], Int64]:
    """Lanes that have events in the window, and the lane of each row: devices first, then busy threads."""
    lane = trace.track[rows].astype(np.int64) * 6 + GROUP_OF_KIND[trace.kind[rows]]
    ids, which, count = np.unique(lane, return_inverse=True, return_counts=True)
    deepest = np.zeros(len(ids), np.int64)
    np.maximum.at(deepest, which, trace.depth[rows])
    per_thread: dict[int, int] = {}
    for lane_id, number in zip(ids.tolist(), count.tolist(), strict=True):
        per_thread[lane_id // 6] = per_thread.get(lane_id // 6, 0) + number
    main = _main_thread(trace)

    def rank(position: int) -> tuple[bool, bool, str, bool, int, int, int]:
        track, kind = divmod(int(ids[position]), 6)
        on_device = trace.tracks[track].is_device
        pid = trace.tracks[track].pid if on_device else ""
        return (kind == OTHER, not on_device, pid, track != main, 0 if on_device else -per_thread[track], track, kind)

    order = sorted(range(len(ids)), key=rank)
    tracks = [_track(trace, *divmod(int(ids[i]), 6), int(deepest[i]) + 1, main) for i in order]
    place = np.empty(len(ids), np.int64)
    place[order] = np.arange(len(ids))
    return tracks, place[which.ravel()] if len(rows) else np.empty(0, np.int64)


def _main_thread(trace: TraceTable) -> int:
    """The track on which the steps were annotated, -1 when there are none."""
    if not trace.steps.recorded or not len(trace.steps.host_start_ns):
        return MISSING
    is_first = (trace.start_ns == trace.steps.host_start_ns[0]) & (trace.end_ns == trace.steps.host_end_ns[0])
    rows = np.flatnonzero(is_first & (trace.kind == EventKind.ANNOTATION))
    return int(trace.track[rows[0]]) if len(rows) else MISSING


def _track(trace: TraceTable, track: int, kind: int, rows: int, main: int) -> TimelineTrack:
    about = trace.tracks[track]
    if about.is_device:
        name = next((d.name or "" for d in trace.devices if d.id == about.pid), "")
        stream = about.tid if about.tid.startswith("stream") else f"stream {about.tid}"
        return TimelineTrack(f"Device {about.pid} · {stream}", _SUBTITLE[kind] or name, True, rows)
    named = THREAD_NAME.match(about.thread.strip())
    name = named.group(1) if named else about.thread.strip() or "thread"
    title = "Main thread" if track == main else f"{name} {about.tid}" if about.tid not in name else name
    place = f" · {name} {about.tid}" if track == main else ""
    return TimelineTrack(title, _SUBTITLE[kind] + place, False, rows)
