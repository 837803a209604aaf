"""Lanes: how a track is divided, what the parts are called, and in which order they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.payloads import TimelineTrack
from tb_plugin.trace.schema import MISSING, EventKind
from tb_plugin.trace.table import TraceTable

Bool = npt.NDArray[np.bool_]
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

THREAD_NAME = re.compile(r"thread -?\d+ \((.+)\)$")
"""How Kineto names host threads: the number is known, what matters stands in the parentheses."""


def lane_of(trace: TraceTable, rows: npt.NDArray[np.integer] | slice = slice(None)) -> Int32:
    """Number of the lane of rows (by default all): its track and what stands on it."""
    lane: Int32 = trace.track[rows] * np.int32(_LANES) + _GROUP_OF_KIND[trace.kind[rows]]
    return lane


@dataclass(frozen=True, eq=False)
class Lanes:
    """All lanes of a trace, in the order in which they stand: devices first, then busy threads. It is always the same."""

    tracks: list[TimelineTrack]
    is_kept: Bool
    """Lanes that are shown also where nothing ran on them: an idle device is an answer."""
    number: Int32
    """Numbers of the lanes, as ``lane_of`` has them."""

    def among(self, places: npt.NDArray[np.integer]) -> tuple[list[TimelineTrack], Int64]:
        """The lanes to show of which something is drawn at ``places``, and the place of each of all among these."""
        shown = self.is_kept.copy()
        shown[places] = True
        return [track for track, chosen in zip(self.tracks, shown, strict=True) if chosen], np.cumsum(shown) - 1

    def places(self, trace: TraceTable, rows: npt.NDArray[np.integer]) -> Int64:
        """The place of each row's lane among all lanes."""
        ascending = np.argsort(self.number)
        found: Int64 = ascending[np.searchsorted(self.number, lane_of(trace, rows), sorter=ascending)]
        return found


def lanes_of(trace: TraceTable, rows: npt.NDArray[np.integer], events: npt.NDArray[np.integer]) -> tuple[Lanes, Int64]:
    """The lanes of a trace from one event of each of their rows, which stands for so many; and the place of each's lane."""
    ids, which = np.unique(lane_of(trace, rows), return_inverse=True)
    which = which.ravel()
    deepest = np.zeros(len(ids), np.int64)
    np.maximum.at(deepest, which, trace.depth[rows])
    tracks, kinds = ids // _LANES, ids % _LANES
    per_thread = np.bincount(trace.track[rows], weights=events, minlength=len(trace.tracks))
    main = _main_thread(trace)

    def rank(position: int) -> tuple[bool, bool, str, bool, float, int, int]:
        track, kind = int(tracks[position]), int(kinds[position])
        on_device = trace.tracks[track].is_device
        pid = trace.tracks[track].pid if on_device else ""
        return (kind == OTHER, not on_device, pid, track != main, 0 if on_device else -per_thread[track], track, kind)

    order = sorted(range(len(ids)), key=rank)
    place = np.empty(len(ids), np.int64)
    place[order] = np.arange(len(ids))
    lanes = Lanes(
        [_track(trace, int(tracks[i]), int(kinds[i]), int(deepest[i]) + 1, main) for i in order],
        kinds[order] == DEVICE,
        ids[order],
    )
    return lanes, place[which]


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
