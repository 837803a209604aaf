"""Lanes: how a track is divided, what the parts are called, and in which order they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.payloads import TimelineTrack
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.schema import MISSING, EventKind
from tb_plugin.trace.table import TraceTable

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

HOST, PYTHON, DEVICE, DEVICE_NOTE, SYNC, OTHER = range(6)
_LANES = 6
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
_GROUP_OF_KIND = np.array([_GROUP.get(kind, OTHER) for kind in EventKind], np.int32)
_SUBTITLE = {
    HOST: "operators, runtime",
    PYTHON: "Python",
    DEVICE: "",
    DEVICE_NOTE: "annotations",
    SYNC: "waits",
    OTHER: "profiler, other",
}
_ID = {HOST: "calls", PYTHON: "python", DEVICE: "work", DEVICE_NOTE: "notes", SYNC: "waits", OTHER: "other"}

THREAD_NAME = re.compile(r"thread -?\d+ \((.+)\)$")
"""How Kineto names host threads: the number is known, what matters stands in the parentheses."""


def lane_of(trace: TraceTable, rows: npt.NDArray[np.integer] | slice = slice(None)) -> Int32:
    """Returns the number of the lane of rows (by default all): its track and what stands on it."""
    lane: Int32 = trace.track[rows] * np.int32(_LANES) + _GROUP_OF_KIND[trace.kind[rows]]
    return lane


@dataclass(frozen=True, eq=False)
class Lanes:
    """All lanes of a trace, in the order in which they are drawn: devices first, then busy threads."""

    number: Int64
    """Numbers of the lanes, as ``lane_of`` has them."""
    events: Int64
    main: int
    """The track on which the steps were annotated, -1 when there are none."""

    def places(self, trace: TraceTable, rows: npt.NDArray[np.integer]) -> Int32:
        """Returns the place of the lane of each of these rows."""
        place = np.empty(len(trace.tracks) * _LANES, np.int32)
        place[self.number] = np.arange(len(self.number))
        found: Int32 = place[lane_of(trace, rows)]
        return found


@remembered
def lanes_of(trace: TraceTable) -> Lanes:
    """Returns the lanes of a trace."""
    events = np.bincount(lane_of(trace), minlength=len(trace.tracks) * _LANES)
    per_thread = events.reshape(-1, _LANES).sum(axis=1)
    main = _main_thread(trace)

    def rank(number: int) -> tuple[bool, bool, str, bool, int, int]:
        track, kind = divmod(number, _LANES)
        on_device = trace.tracks[track].is_device
        pid = trace.tracks[track].pid if on_device else ""
        return (kind == OTHER, not on_device, pid, track != main, 0 if on_device else -per_thread[track], number)

    number = np.array(sorted(np.flatnonzero(events).tolist(), key=rank), np.int64)
    return Lanes(number, events[number], main)


def tracks_of(trace: TraceTable, lanes: Lanes, rows: npt.NDArray[np.integer]) -> list[TimelineTrack]:
    """Returns what is said of each lane; ``rows`` are their heights."""
    return [
        _track(trace, int(number), int(height), int(events), lanes.main)
        for number, events, height in zip(lanes.number, lanes.events, rows, strict=True)
    ]


def _main_thread(trace: TraceTable) -> int:
    """The track on which the steps were annotated, -1 when there are none."""
    if not trace.steps.recorded or not len(trace.steps.host_start_ns):
        return MISSING
    is_first = (trace.start_ns == trace.steps.host_start_ns[0]) & (trace.end_ns == trace.steps.host_end_ns[0])
    rows = np.flatnonzero(is_first & (trace.kind == EventKind.ANNOTATION))
    return int(trace.track[rows[0]]) if len(rows) else MISSING


def _track(trace: TraceTable, number: int, rows: int, events: int, main: int) -> TimelineTrack:
    track, kind = divmod(number, _LANES)
    about = trace.tracks[track]
    id_ = f"{about.pid}/{about.tid}/{_ID[kind]}"
    if about.is_device:
        name = next((d.name or "" for d in trace.devices if d.id == about.pid), "")
        stream = about.tid if about.tid.startswith("stream") else f"stream {about.tid}"
        return TimelineTrack(id_, f"Device {about.pid} · {stream}", _SUBTITLE[kind] or name, True, rows, events)
    named = THREAD_NAME.match(about.thread.strip())
    name = named.group(1) if named else about.thread.strip() or "thread"
    title = "Main thread" if track == main else f"{name} {about.tid}" if about.tid not in name else name
    place = f" · {name} {about.tid}" if track == main else ""
    return TimelineTrack(id_, title, _SUBTITLE[kind] + place, False, rows, events)
