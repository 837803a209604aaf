"""Lanes of timeline tracks: kinds, names and order."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.thread_and_stream_names import track_names
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import TimelineTrack

HOST, PYTHON, DEVICE, DEVICE_NOTE, SYNC, ASYNC, OTHER = range(7)
_LANES = 7
_GROUP = {
    EventKind.OPERATOR: HOST,
    EventKind.ANNOTATION: HOST,
    EventKind.RUNTIME: HOST,
    EventKind.INSTANT: HOST,
    EventKind.ASYNC: ASYNC,
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
    ASYNC: "asynchronous",
    OTHER: "profiler, other",
}
# In the title of a lane that shares its thread or stream with others. Work names the streams themselves.
_HOLDS = {**_SUBTITLE, HOST: "operators", OTHER: "profiler"}
_ID = {
    HOST: "calls",
    PYTHON: "python",
    DEVICE: "work",
    DEVICE_NOTE: "notes",
    SYNC: "waits",
    ASYNC: "async",
    OTHER: "other",
}


def lane_of(trace: TraceTable, rows: npt.NDArray[np.integer] | slice = slice(None)) -> Int32:
    """Returns the lane number of each of these rows. A lane number encodes both the track and the event kind."""
    track = trace.track[rows]
    group = _GROUP_OF_KIND[trace.kind[rows]]
    if any(one.is_async for one in trace.tracks):
        group = np.where(np.array([one.is_async for one in trace.tracks])[track], np.int32(ASYNC), group)
    lane: Int32 = track * np.int32(_LANES) + group
    return lane


class Lanes(msgspec.Struct, frozen=True, eq=False):
    """All lanes of a trace in drawing order: devices, the main thread, then other threads by activity."""

    number: Int64
    events: Int64

    def places(self, trace: TraceTable, rows: npt.NDArray[np.integer]) -> Int32:
        place = np.empty(len(trace.tracks) * _LANES, np.int32)
        place[self.number] = np.arange(len(self.number))
        found: Int32 = place[lane_of(trace, rows)]
        return found


@cached_by_argument
def lanes_of(trace: TraceTable) -> Lanes:
    events = np.bincount(lane_of(trace), minlength=len(trace.tracks) * _LANES)
    per_thread = events.reshape(-1, _LANES).sum(axis=1)
    names = track_names(trace)
    of_process: Counter[str] = Counter()
    for track, count in zip(trace.tracks, per_thread.tolist(), strict=True):
        of_process[track.pid] += 0 if track.is_device else count

    def rank(number: int) -> tuple[bool, bool, int, int, int, str, tuple[int, ...], int, int]:
        track, kind = divmod(number, _LANES)
        track_info = trace.tracks[track]
        on_device, pid = track_info.is_device, track_info.pid
        # The profiler's own events come last, on any thread; device 10 comes after device 9.
        is_own = kind == OTHER
        busy = 0 if on_device else int(per_thread[track])
        # Processes in the trace's order, else most events first; threads of one stay together.
        process = (0, 0) if on_device or is_own else (track_info.process_order, -of_process[pid])
        return (is_own, not on_device, *process, len(pid), pid, names[track].order, -busy, number)

    number = np.array(sorted(np.flatnonzero(events).tolist(), key=rank), np.int64)
    return Lanes(number, events[number])


def tracks_of(trace: TraceTable, lanes: Lanes, rows: npt.NDArray[np.integer]) -> list[TimelineTrack]:
    # Without operators, ranges are normal events.
    calls = bool(of_kind(trace.kind, EventKind.OPERATOR, EventKind.RUNTIME).any())
    titles = _titles(trace, lanes, calls)
    return [
        _track(trace, int(number), title, int(height), int(events), calls)
        for number, title, events, height in zip(lanes.number, titles, lanes.events, rows, strict=True)
    ]


def _id_of(trace: TraceTable, number: int) -> str:
    track, kind = divmod(number, _LANES)
    return f"{trace.tracks[track].pid}/{trace.tracks[track].tid}/{_ID[kind]}"


def lane_with_id(trace: TraceTable, id_: str) -> int:
    """Returns the number of the lane. Raises BadRequest if there is no such lane."""
    found = [number for number in lanes_of(trace).number.tolist() if _id_of(trace, number) == id_]
    if not found:
        raise BadRequest("The trace has no such track.", "track", f"Got {id_[:80]!r}.")
    return int(found[0])


def _titles(trace: TraceTable, lanes: Lanes, calls: bool) -> list[str]:
    """Returns unique titles. If a thread or stream has several lanes, their titles contain what they hold."""
    names = track_names(trace)
    shared = np.bincount(lanes.number // _LANES, minlength=len(names)) > 1
    titles = []
    for track, kind in (divmod(number, _LANES) for number in lanes.number.tolist()):
        holds = "ranges" if kind == HOST and not calls else _HOLDS[kind]
        titles.append(f"{names[track].short} · {holds}" if shared[track] and holds else names[track].title)
    count = Counter(titles)
    used: Counter[str] = Counter()
    for at, number in enumerate(lanes.number.tolist()):
        track = trace.tracks[number // _LANES]
        if count[titles[at]] > 1 and track.is_device:
            word = next((device.word for device in trace.devices if device.id == track.pid), "Device")
            titles[at] = f"{word} {track.pid} · {titles[at]}"
        used[titles[at]] += 1
        if used[titles[at]] > 1:
            titles[at] = f"{titles[at]} #{used[titles[at]]}"
    return titles


def _track(trace: TraceTable, number: int, title: str, rows: int, events: int, calls: bool) -> TimelineTrack:
    track, kind = divmod(number, _LANES)
    track_info, name = trace.tracks[track], track_names(trace)[track]
    # The profiler's own lane is as small as possible.
    what = "ranges" if kind == HOST and not calls else _SUBTITLE[kind]
    # The title may contain it.
    what = "" if title.endswith(f" · {what}") else what
    details = () if kind == OTHER and name.title == track_info.tid else (what, name.recorded)
    return TimelineTrack(
        _id_of(trace, number), title, " · ".join(filter(None, details)), track_info.is_device, rows, events
    )
