"""Lanes: how a track is divided, what the parts are called, and in which order they stand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.tracks import track_names
from tb_plugin.payloads import TimelineTrack
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.schema import EventKind
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


def lane_of(trace: TraceTable, rows: npt.NDArray[np.integer] | slice = slice(None)) -> Int32:
    """Returns the number of the lane of rows (by default all): its track and what stands on it."""
    lane: Int32 = trace.track[rows] * np.int32(_LANES) + _GROUP_OF_KIND[trace.kind[rows]]
    return lane


@dataclass(frozen=True, eq=False)
class Lanes:
    """All lanes of a trace, in the order in which they are drawn: devices first, then the main thread, then busy ones."""

    number: Int64
    """Numbers of the lanes, as ``lane_of`` has them."""
    events: Int64

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
    names = track_names(trace)

    def rank(number: int) -> tuple[bool, bool, int, str, tuple[int, ...], int, int]:
        track, kind = divmod(number, _LANES)
        on_device = trace.tracks[track].is_device
        pid = trace.tracks[track].pid if on_device else ""
        # What the tool records of itself stands last, whatever thread it is on; device 10 stands behind device 9.
        is_own = kind == OTHER
        busy = 0 if on_device else int(per_thread[track])
        return (is_own, not on_device, len(pid), pid, names[track].order, -busy, number)

    number = np.array(sorted(np.flatnonzero(events).tolist(), key=rank), np.int64)
    return Lanes(number, events[number])


def tracks_of(trace: TraceTable, lanes: Lanes, rows: npt.NDArray[np.integer]) -> list[TimelineTrack]:
    """Returns what is said of each lane; ``rows`` are their heights."""
    return [
        _track(trace, int(number), int(height), int(events))
        for number, events, height in zip(lanes.number, lanes.events, rows, strict=True)
    ]


def _track(trace: TraceTable, number: int, rows: int, events: int) -> TimelineTrack:
    track, kind = divmod(number, _LANES)
    about, name = trace.tracks[track], track_names(trace)[track]
    id_ = f"{about.pid}/{about.tid}/{_ID[kind]}"
    # The tool's own lane takes as little room as can be.
    said = () if kind == OTHER and name.title == about.tid else (_SUBTITLE[kind], name.recorded)
    return TimelineTrack(id_, name.title, " · ".join(filter(None, said)), about.is_device, rows, events)
