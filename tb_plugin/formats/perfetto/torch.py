"""What PyTorch writes (Cuspy in 2.15, cupti_monitor in 2.14) as the events of its own Chrome JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.perfetto.begin_end_runs import Waiting
from tb_plugin.formats.perfetto.gpu_stages import Stages
from tb_plugin.formats.perfetto.interned import Annotations, Interned, quoted, remember
from tb_plugin.formats.perfetto.schema import BEGIN, END, AnnotationList, Launched, TorchTrace, TrackEvent
from tb_plugin.formats.perfetto.skipped_packets import Unshown
from tb_plugin.formats.perfetto.tracks import Track, Tracks, name_event

_CORRELATION = re.compile(r'"correlation":(\d{1,18})\b')
BASE = "baseTimeNanoseconds"
"""Where PyTorch's JSON states the time that its times count from."""
_BOOT, _REAL = 6, 1
"""Clocks: time since the start of the machine, and since 1970."""
_ANNOTATION = b'"'
"""Field 4, with a length: the tag of an annotation."""
_NONE = -1
"""Type of what is no track event."""
_MINUS_ONE = str(2**31 - 1)
"""What PyTorch writes for a process or stream -1."""


def base_time(packets: list[Any]) -> int | None:
    """Returns the time that the times of PyTorch's JSON count from; None where another tool wrote the trace.

    PyTorch states it ahead of all else, as the same value of two clocks that agree on no machine.
    """
    if not packets or not packets[0].HasField("clock_snapshot"):
        return None
    clocks = {clock.clock_id: clock.timestamp for clock in packets[0].clock_snapshot.clocks}
    return clocks[_BOOT] if clocks.keys() == {_BOOT, _REAL} and clocks[_BOOT] == clocks[_REAL] else None


class _Said(NamedTuple):
    """What a track event says but for its annotations."""

    kind: int
    uuid: int
    head: str
    """What its event begins with, as JSON."""
    launched: bytes
    is_whole: bool


class TorchText:
    """Turns the packets of PyTorch's trace into events, as JSON."""

    def __init__(self, base_ns: int, log: IssueLog) -> None:
        self._base = base_ns
        self._log = log
        self.interned = Interned(log, of_torch=True)
        self._tracks = Tracks(log)
        self.stages = Stages(base_ns, log)
        self._waiting = Waiting()
        self._ends: tuple[list[int], list[int]] = ([], [])
        """Times and tracks of ends that are not paired yet."""
        self._is_ending = False
        """An end came after the last begin."""
        self._said: dict[bytes, _Said] = {}
        self._others = Unshown(log)

    messages = TorchTrace

    def root(self) -> dict[str, Any]:
        """Returns what stands ahead of the events."""
        return {BASE: self._base}

    def events(self, batch: list[Any]) -> Iterator[str]:
        """Yields the events of some packets, in texts of one or several that commas separate."""
        base, (ends, end_tracks) = self._base, self._ends
        annotations, said = self.interned.annotations.__getitem__, self._said
        begun: list[tuple[int, int, str]] = []
        for packet in batch:
            raw = packet.track_event
            if not raw:
                yield from self._other(packet)
                continue
            # What stands ahead of the first annotation is the same in many begins, and all of an end.
            at = raw.find(_ANNOTATION)
            ahead = raw[:at] if at >= 0 else raw
            known = said.get(ahead) or self._learn(ahead)
            if known.kind == END and at < 0:
                if begun:
                    self._waiting.add(begun)
                    begun = []
                ends.append(packet.timestamp)
                end_tracks.append(known.uuid)
                continue
            args = _all_annotations(raw[at:]) if at >= 0 and known.is_whole else None
            if args is None:
                known, args = self.apart(raw)
            if known.kind == BEGIN:
                if ends:
                    yield from self._paired()
                if self._is_ending:
                    self._is_ending = False
                    yield from self._left()
                start = packet.timestamp
                text = ",".join(filter(None, map(annotations, args)))
                if known.launched and (stated := _CORRELATION.search(text)):
                    self.note_launched(known.launched, int(stated[1]))
                begun.append((start, known.uuid, f'"ts":{start - base}e-3,{known.head}{text}}}'))
            elif known.kind == END:
                ends.append(packet.timestamp)
                end_tracks.append(known.uuid)
            elif known.kind != _NONE:
                self._log.add("unknown_type", "dropped")
        if begun:
            self._waiting.add(begun)
        if ends:
            yield from self._paired()

    @property
    def annotations(self) -> Annotations:
        """Returns undecoded annotation -> member of a JSON object."""
        return self.interned.annotations

    def body(self, start: int, said: _Said, raw: list[bytes]) -> str:
        """Returns the event of a begin, as JSON but for its phase and duration."""
        return f'"ts":{start - self._base}e-3,{said.head}{",".join(filter(None, map(self.annotations.__getitem__, raw)))}}}'

    def place(self, uuid: int) -> tuple[str, str]:
        """Returns process and thread of a track, as JSON."""
        return _place(self._tracks[uuid])

    def finish(self) -> Iterator[str]:
        """Yields the events that are known when all packets were seen."""
        yield from self._left()
        yield from self.stages.arrows()
        described = {}
        for event, track, name in self._tracks.names():
            described[event, track.pid] = name
            yield name_event(event, *_place(track), name)
        yield from self.stages.names({pid for event, pid in described if event == "process_name"})
        self._others.report()

    def _paired(self) -> Iterator[str]:
        """Ranges whose ends came."""
        ends, tracks = self._ends
        texts, durations = self._waiting.ended(ends, tracks)
        yield ",\n".join(f'{{"ph":"X","dur":{dur}e-3,{text}}}' for dur, text in zip(durations, texts, strict=True))
        if len(texts) < len(ends):  # no run as PyTorch writes it: what is left is paired in order of time
            yield from self._left()
            for time, uuid in zip(ends[len(texts) :], tracks[len(texts) :], strict=True):
                pid, tid = _place(self._tracks[uuid])
                yield f'{{"ph":"E","ts":{time - self._base}e-3,"pid":{pid},"tid":{tid}}}'
        ends.clear()
        tracks.clear()
        self._is_ending = True

    def _left(self) -> Iterator[str]:
        """Begins without an end of their run."""
        for text in self._waiting.take():
            yield f'{{"ph":"B",{text}}}'

    def _learn(self, ahead: bytes) -> _Said:
        """What some bytes ahead of annotations say; they may be cut inside a number that looks like the tag of one."""
        try:
            event = TrackEvent.FromString(ahead)
        except DecodeError:
            return remember(self._said, ahead, _Said(0, 0, "", b"", is_whole=False))
        return remember(self._said, ahead, self._say(event))

    def apart(self, raw: bytes) -> tuple[_Said, list[bytes]]:
        """Returns what a track event says, and its annotations, wherever they stand."""
        try:
            event = TrackEvent.FromString(raw)
        except DecodeError:
            self._log.add("unreadable_packet", "dropped")
            return _Said(_NONE, 0, "", b"", is_whole=False), []
        return self._say(event), list(event.annotations)

    def _say(self, event: Any) -> _Said:
        interned = self.interned
        pid, tid = _place(self._tracks[event.track_uuid])
        if event.category_iids:
            category = interned.categories.get(event.category_iids[0], "")
        else:  # of all that PyTorch writes, only the profiler's own overhead and waits for a device have none
            category = "overhead" if pid == "-1" else "cuda_sync"
        name = interned.names.get(event.name_iid, f"(name {event.name_iid})")
        head = f'"cat":{quoted(category)},"name":{quoted(name)},"pid":{pid},"tid":{tid},"args":{{'
        return _Said(event.type, event.track_uuid, head, event.launched, is_whole=True)

    def note_launched(self, raw: bytes, correlation: int) -> None:
        """Notes which work of a device a call launched, for work that does not state the correlation itself."""
        try:
            event_ids = Launched.FromString(raw).event_ids
        except DecodeError:
            self._log.add("unreadable_annotation", "note")
            return
        self.stages.launched(event_ids, [correlation] * len(event_ids))

    def _other(self, packet: Any) -> Iterator[str]:
        if packet.HasField("render_stage"):
            yield self.stages.stage(packet, self.interned, packet.timestamp)
        elif packet.HasField("gpu_counter_event"):
            yield from self.stages.counters(packet, self.interned, packet.timestamp)
        elif packet.HasField("track_descriptor"):
            self._tracks.add(packet.track_descriptor)
            self._said.clear()
        elif packet.HasField("interned_data"):
            self.interned.add(packet.interned_data)
            self._said.clear()
        elif not packet.HasField("clock_snapshot"):
            self._others.add(packet)


def _all_annotations(raw: bytes) -> list[bytes] | None:
    """The annotations that these bytes hold; None where they hold something else as well."""
    try:
        found = list(AnnotationList.FromString(raw).annotations)
    except DecodeError:
        return None
    beside = len(raw) - sum(map(len, found)) - 2 * len(found)  # two bytes of each are its tag and its length
    if beside:
        beside -= sum((len(each) > 127) + (len(each) > 16383) for each in found)
    return found if not beside else None


def _place(track: Track) -> tuple[str, str]:
    """Process and thread, as PyTorch's JSON has them."""
    return ("-1" if track.pid == _MINUS_ONE else track.pid, "-1" if track.tid == _MINUS_ONE else track.tid)
