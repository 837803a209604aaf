"""Conversion of PyTorch's packets to the events of its Chrome JSON.

PyTorch 2.14 (cupti_monitor) and 2.15 (Cuspy) write such packets.
"""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError
from isal import isal_zlib

from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.perfetto.gpu_stages import Stages
from tb_plugin.formats.perfetto.interned import Annotations, Interned, remember, text_json
from tb_plugin.formats.perfetto.schema import BEGIN, END, AnnotationList, Launched, TorchTrace, TrackEvent
from tb_plugin.formats.perfetto.skipped_packets import Unshown
from tb_plugin.formats.perfetto.tracks import Track, Tracks, name_event

_CORRELATION = re.compile(r'"correlation":(\d{1,18})\b')
BASE = "baseTimeNanoseconds"  # key of the base time in PyTorch's JSON
_BOOT, _REAL = 6, 1  # clocks: since boot, and since 1970
_ANNOTATION = b'"'  # tag of an annotation: field 4, with a length
_NONE = -1  # kind of a packet that is not a track event
_MINUS_ONE = str(2**31 - 1)  # written by PyTorch for process or stream -1


def base_time(packets: list[Any]) -> int | None:
    """Returns PyTorch's base time, which its first packets contain as equal values of two clocks; None for other tools."""
    if not packets or not packets[0].HasField("clock_snapshot"):
        return None
    clocks = {clock.clock_id: clock.timestamp for clock in packets[0].clock_snapshot.clocks}
    return clocks[_BOOT] if clocks.keys() == {_BOOT, _REAL} and clocks[_BOOT] == clocks[_REAL] else None


class _Description(NamedTuple):
    kind: int
    uuid: int
    head: str  # start of the event, as JSON
    launched: bytes
    is_complete: bool


_PIECE_BEGINS = 4096  # begins compressed in one piece
_UNCOMPRESSED_PIECES = 4  # number of pieces that stay uncompressed, so that short recordings are never compressed


class Waiting:
    """Begin events whose ends have not been read, oldest first."""

    def __init__(self) -> None:
        self._texts: list[str] = []  # texts of the newest begins
        self._starts = array("Q")
        self._tracks = array("Q")
        self._pieces: deque[tuple[array[int], array[int], list[str] | bytes]] = deque()
        self._head: tuple[list[str], array[int], array[int]] = ([], array("Q"), array("Q"))  # the oldest begins
        self._next = 0  # index of the first open begin in ``_head``

    def add(self, begun: list[tuple[int, int, str]]) -> None:
        """Appends begin events: start, track and text (without line breaks)."""
        starts, tracks, texts = zip(*begun, strict=True)
        self._texts += texts
        self._starts.extend(starts)
        self._tracks.extend(tracks)
        if len(self._texts) >= _PIECE_BEGINS:
            self._seal()

    def _seal(self) -> None:
        texts: list[str] | bytes = self._texts
        if len(self._pieces) >= _UNCOMPRESSED_PIECES:
            texts = isal_zlib.compress("\n".join(self._texts).encode(), 1)
        self._pieces.append((self._starts, self._tracks, texts))
        self._texts, self._starts, self._tracks = [], array("Q"), array("Q")

    def _refill(self) -> bool:
        if not self._pieces and self._texts:
            self._seal()
        if not self._pieces:
            return False
        starts, tracks, texts = self._pieces.popleft()
        if isinstance(texts, bytes):
            texts = isal_zlib.decompress(texts).decode().split("\n")
        self._head, self._next = (texts, starts, tracks), 0
        return True

    def ended(self, ends: list[int], tracks: list[int]) -> tuple[list[str], list[int]]:
        """Matches ends to the oldest begins, up to the first misfit. Returns texts and durations of the matched events."""
        texts: list[str] = []
        durations: list[int] = []
        while len(texts) < len(ends) and (self._next < len(self._head[0]) or self._refill()):
            done, at = len(texts), self._next
            begun = np.frombuffer(self._head[1], np.uint64)[at : at + len(ends) - done]
            on = np.frombuffer(self._head[2], np.uint64)[at : at + len(begun)]
            part = slice(done, done + len(begun))
            duration = (np.array(ends[part], np.uint64) - begun).view(np.int64)
            fits = (duration >= 0) & (on == np.array(tracks[part], np.uint64))
            count = len(begun) if fits.all() else int(np.argmin(fits))
            texts += self._head[0][at : at + count]
            durations += duration[:count].tolist()
            self._next += count
            if count < len(begun):
                break
        return texts, durations

    def take(self) -> Iterator[str]:
        """Yields the texts of all begin events without an end, and removes these events."""
        while self._next < len(self._head[0]) or self._refill():
            at, self._next = self._next, self._next + 1
            yield self._head[0][at]


class TorchText:
    def __init__(self, base_ns: int, log: IssueLog) -> None:
        self._base = base_ns
        self._log = log
        self.interned = Interned(log, of_torch=True)
        self._tracks = Tracks(log)
        self.stages = Stages(base_ns, log)
        self._waiting = Waiting()
        self._ends: tuple[list[int], list[int]] = ([], [])  # times and tracks of unpaired ends
        self._is_ending = False  # whether the last packet was an end
        self._descriptions: dict[bytes, _Description] = {}
        self._others = Unshown(log)

    messages = TorchTrace

    def root(self) -> dict[str, Any]:
        return {BASE: self._base}

    def events(self, batch: list[Any]) -> Iterator[str]:
        """Yields the events of a batch of packets. Each text contains one or more events, separated by commas."""
        base, (ends, end_tracks) = self._base, self._ends
        annotations, description = self.interned.annotations.__getitem__, self._descriptions
        begun: list[tuple[int, int, str]] = []
        for packet in batch:
            raw = packet.track_event
            if not raw:
                yield from self._other(packet)
                continue
            # The bytes before the first annotation are the same in many begins. An end has no other bytes.
            at = raw.find(_ANNOTATION)
            ahead = raw[:at] if at >= 0 else raw
            known = description.get(ahead) or self._learn(ahead)
            if known.kind == END and at < 0:
                if begun:
                    self._waiting.add(begun)
                    begun = []
                ends.append(packet.timestamp)
                end_tracks.append(known.uuid)
                continue
            args = _all_annotations(raw[at:]) if at >= 0 and known.is_complete else None
            if args is None:
                known, args = self.name_and_annotations(raw)
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
        return self.interned.annotations

    def body(self, start: int, description: _Description, raw: list[bytes]) -> str:
        """Returns a begin event as JSON, without phase and duration."""
        args = ",".join(filter(None, map(self.annotations.__getitem__, raw)))
        return f'"ts":{start - self._base}e-3,{description.head}{args}}}'

    def place(self, uuid: int) -> tuple[str, str]:
        return _place(self._tracks[uuid])

    def finish(self) -> Iterator[str]:
        yield from self._left()
        yield from self.stages.arrows()
        described = {}
        for event, track, name in self._tracks.names():
            described[event, track.pid] = name
            yield name_event(event, *_place(track), name)
        yield from self.stages.names({pid for event, pid in described if event == "process_name"})
        self._others.report()

    def _paired(self) -> Iterator[str]:
        ends, tracks = self._ends
        texts, durations = self._waiting.ended(ends, tracks)
        yield ",\n".join(f'{{"ph":"X","dur":{dur}e-3,{text}}}' for dur, text in zip(durations, texts, strict=True))
        if len(texts) < len(ends):  # not in PyTorch's order: the remaining ranges are matched by time
            yield from self._left()
            for time, uuid in zip(ends[len(texts) :], tracks[len(texts) :], strict=True):
                pid, tid = _place(self._tracks[uuid])
                yield f'{{"ph":"E","ts":{time - self._base}e-3,"pid":{pid},"tid":{tid}}}'
        ends.clear()
        tracks.clear()
        self._is_ending = True

    def _left(self) -> Iterator[str]:
        for text in self._waiting.take():
            yield f'{{"ph":"B",{text}}}'

    def _learn(self, ahead: bytes) -> _Description:
        """Decodes bytes before the annotations. They may be incomplete, because numbers can look like tags."""
        try:
            event = TrackEvent.FromString(ahead)
        except DecodeError:
            return remember(self._descriptions, ahead, _Description(0, 0, "", b"", is_complete=False))
        return remember(self._descriptions, ahead, self._describe(event))

    def name_and_annotations(self, raw: bytes) -> tuple[_Description, list[bytes]]:
        """Decodes a track event. Returns the event's description and its undecoded annotations."""
        try:
            event = TrackEvent.FromString(raw)
        except DecodeError:
            self._log.add("unreadable_packet", "dropped")
            return _Description(_NONE, 0, "", b"", is_complete=False), []
        return self._describe(event), list(event.annotations)

    def _describe(self, event: Any) -> _Description:
        interned = self.interned
        pid, tid = _place(self._tracks[event.track_uuid])
        if event.category_iids:
            category = interned.categories.get(event.category_iids[0], "")
        else:  # in PyTorch, only profiler overhead and device waits have no category
            category = "overhead" if pid == "-1" else "cuda_sync"
        name = interned.names.get(event.name_iid, f"(name {event.name_iid})")
        head = f'"cat":{text_json(category)},"name":{text_json(name)},"pid":{pid},"tid":{tid},"args":{{'
        return _Description(event.type, event.track_uuid, head, event.launched, is_complete=True)

    def note_launched(self, raw: bytes, correlation: int) -> None:
        """Stores which device work a call launched, because some work has no correlation id."""
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
            self._descriptions.clear()
        elif packet.HasField("interned_data"):
            self.interned.add(packet.interned_data)
            self._descriptions.clear()
        elif not packet.HasField("clock_snapshot"):
            self._others.add(packet)


def _all_annotations(raw: bytes) -> list[bytes] | None:
    """Returns the undecoded annotations in ``raw``, or None if it contains anything else."""
    try:
        found = list(AnnotationList.FromString(raw).annotations)
    except DecodeError:
        return None
    other_bytes = len(raw) - sum(map(len, found)) - 2 * len(found)  # tag and length take two bytes each
    if other_bytes:
        other_bytes -= sum((len(each) > 127) + (len(each) > 16383) for each in found)
    return found if not other_bytes else None


def _place(track: Track) -> tuple[str, str]:
    return ("-1" if track.pid == _MINUS_ONE else track.pid, "-1" if track.tid == _MINUS_ONE else track.tid)
