"""Tracks as processes and threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.perfetto.interned import clean_text, text_json

_MAX_PARENTS = 16
_UNITS = {1: "ns", 2: "", 3: "bytes"}  # units by Perfetto's number
_THREAD_TIME = 1
# counters of Perfetto's own library: name and unit
_BUILT_IN = {_THREAD_TIME: ("thread time", "ns"), 2: ("thread instructions", "")}
_NOWHERE = "(no process)"


class Track(msgspec.Struct, frozen=True):
    pid: str
    tid: str


class CounterTrack(msgspec.Struct, frozen=True):
    uuid: int
    pid: str  # JSON
    name: str  # with unit, JSON
    multiplier: int = 1
    is_incremental: bool = False
    is_thread_time: bool = False  # running time of a thread, nanoseconds


class Tracks:
    """All tracks of a trace by id. Add all descriptions before the first lookup."""

    def __init__(self, log: IssueLog) -> None:
        self._counters: dict[int, CounterTrack] = {}
        self._log = log
        self._descriptors: dict[int, Any] = {}
        self._tracks: dict[int, Track] = {}

    def add(self, descriptor: Any) -> None:
        """Adds a track description. A later description of the same track replaces an earlier one."""
        self._descriptors[descriptor.uuid] = descriptor

    def __getitem__(self, uuid: int) -> Track:
        track = self._tracks.get(uuid)
        if track is None:
            track = self._tracks[uuid] = self._make(uuid)
        return track

    def counter(self, uuid: int) -> CounterTrack:
        known = self._counters.get(uuid)
        if known is None:
            known = self._counters[uuid] = self._counter(uuid)
        return known

    def names(self) -> Iterator[tuple[str, Track, str]]:
        """Yields the names of processes and threads. Each item consists of event name, track and name."""
        for uuid, descriptor in self._descriptors.items():
            if descriptor.HasField("counter"):
                continue
            is_process = descriptor.HasField("process")
            builtin_name = descriptor.process.name if is_process else descriptor.thread.name
            # Chromium writes the whole command line as the process name; its options are removed.
            if name := clean_text(builtin_name, self._log).partition(" --")[0] or self._name(descriptor):
                yield "process_name" if is_process else "thread_name", self[uuid], name

    def _name(self, descriptor: Any) -> str:
        return clean_text(descriptor.name or descriptor.static_name or descriptor.atrace_name, self._log)

    def _counter(self, uuid: int) -> CounterTrack:
        descriptor = self._descriptors.get(uuid)
        pid = self[uuid].pid
        if descriptor is None:
            return CounterTrack(uuid, pid, text_json(f"counter {uuid}"))
        counter = descriptor.counter
        builtin_name, implied = _BUILT_IN.get(counter.type, (f"counter {uuid}", ""))
        name = self._name(descriptor) or builtin_name
        if thread := self._thread_of(descriptor):
            name += f", thread {thread}"
        unit = clean_text(counter.unit_name, self._log) or _UNITS.get(counter.unit, implied)
        return CounterTrack(
            uuid,
            pid,
            text_json(f"{name} ({unit})" if unit else name),
            counter.unit_multiplier or 1,
            counter.is_incremental,
            counter.type == _THREAD_TIME,
        )

    def _thread_of(self, descriptor: Any) -> str:
        """Returns the thread id of a counter for its name, or "". In Chrome's JSON, counters have no thread."""
        parent = self._descriptors.get(descriptor.parent_uuid) if descriptor.parent_uuid else None
        return str(parent.thread.tid) if parent is not None and parent.HasField("thread") else ""

    def _make(self, uuid: int) -> Track:
        descriptor = self._descriptors.get(uuid)
        if descriptor is not None and descriptor.HasField("thread"):
            return Track(str(descriptor.thread.pid), str(descriptor.thread.tid))
        return Track(self._process_of(descriptor), text_json(f"track {len(self._tracks) + 1}"))

    def _process_of(self, descriptor: Any) -> str:
        for _ in range(_MAX_PARENTS):
            if descriptor is None:
                break
            for kind in ("thread", "process"):
                if descriptor.HasField(kind):
                    return str(getattr(descriptor, kind).pid)
            descriptor = self._descriptors.get(descriptor.parent_uuid) if descriptor.parent_uuid else None
        return text_json(_NOWHERE)


def name_event(event: str, pid: str, tid: str, name: str) -> str:
    return f'{{"ph":"M","name":"{event}","pid":{pid},"tid":{tid},"args":{{"name":{text_json(name)}}}}}'
