"""What PyTorch writes (Cuspy in 2.15, cupti_monitor in 2.14) as the events of its own Chrome JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from tb_plugin.readers.issues import IssueLog
from tb_plugin.readers.perfetto.interned import Interned, quoted
from tb_plugin.readers.perfetto.runs import Waiting
from tb_plugin.readers.perfetto.schema import BEGIN, END, Launched
from tb_plugin.readers.perfetto.stages import Stages
from tb_plugin.readers.perfetto.unshown import Unshown
from tb_plugin.readers.perfetto.tracks import Track, Tracks, named

_CORRELATION = re.compile(r'"correlation":(\d{1,18})\b')
_BOOT, _REAL = 6, 1
"""Clocks: time since the start of the machine, and since 1970."""
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


class TorchText:
    """Turns the packets of PyTorch's trace into events, as JSON."""

    def __init__(self, base_ns: int, log: IssueLog) -> None:
        self._base = base_ns
        self._log = log
        self._interned = Interned(log, of_torch=True)
        self._tracks = Tracks(log)
        self._stages = Stages(base_ns, log)
        self._waiting = Waiting()
        self._ends: tuple[list[int], list[int]] = ([], [])
        """Times and tracks of ends that are not paired yet."""
        self._is_ending = False
        """An end came after the last begin."""
        self._others = Unshown(log)

    def root(self) -> dict[str, Any]:
        """Returns what stands ahead of the events."""
        return {"baseTimeNanoseconds": self._base}

    def events(self, batch: list[Any]) -> Iterator[str]:
        """Yields the events of some packets, in texts of one or several that commas separate."""
        base, (ends, end_tracks) = self._base, self._ends
        annotations, heads = self._interned.annotations, self._interned.heads
        add = self._waiting.add
        for packet in batch:
            event = packet.track_event
            kind = event.type
            if kind == END:
                ends.append(packet.timestamp)
                end_tracks.append(event.track_uuid)
            elif kind == BEGIN:
                if ends:
                    yield from self._paired()
                if self._is_ending:
                    self._is_ending = False
                    yield from self._left()
                start, track = packet.timestamp, event.track_uuid
                key = (event.name_iid, track, *event.category_iids)
                args = ",".join(map(annotations.__getitem__, event.annotations))
                if event.launched:
                    self._note_launched(event.launched, args)
                add(start, track, f'"ts":{start - base}e-3,{heads.get(key) or self._head(key)}{args}}}')
            else:
                yield from self._other(packet)
        if ends:
            yield from self._paired()

    def finish(self) -> Iterator[str]:
        """Yields the events that are known when all packets were seen."""
        yield from self._left()
        yield from self._stages.arrows()
        described = {}
        for event, track, name in self._tracks.names():
            described[event, track.pid] = name
            yield named(event, *_place(track), name)
        yield from self._stages.names({pid for event, pid in described if event == "process_name"})
        self._others.report()

    def _paired(self) -> Iterator[str]:
        """Ranges whose ends came."""
        ends, tracks = self._ends
        texts, durations = self._waiting.ended(ends, tracks)
        yield ",\n".join(['{"ph":"X","dur":%de-3,%s}' % pair for pair in zip(durations, texts, strict=True)])
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

    def _head(self, key: tuple[int, ...]) -> str:
        """What all ranges of one name, track and category share."""
        interned = self._interned
        name, uuid, *categories = key
        pid, tid = _place(self._tracks[uuid])
        # Of all that PyTorch writes, only the profiler's own overhead and waits for a device have no category.
        category = interned.categories.get(categories[0], "") if categories else "overhead" if pid == "-1" else "cuda_sync"
        named_ = interned.names.get(name, f"(name {name})")
        head = f'"cat":{quoted(category)},"name":{quoted(named_)},"pid":{pid},"tid":{tid},"args":{{'
        interned.heads[key] = head
        return head

    def _note_launched(self, raw: bytes, args: str) -> None:
        correlation = _CORRELATION.search(args)
        try:
            event_ids = Launched.FromString(raw).event_ids
        except DecodeError:
            self._log.add("unreadable_annotation", "note")
            return
        if correlation:
            self._stages.launched(event_ids, int(correlation[1]))

    def _other(self, packet: Any) -> Iterator[str]:
        if packet.HasField("render_stage"):
            yield self._stages.stage(packet, self._interned, packet.timestamp)
        elif packet.HasField("gpu_counter_event"):
            yield from self._stages.counters(packet, self._interned, packet.timestamp)
        elif packet.HasField("track_descriptor"):
            self._tracks.add(packet.track_descriptor)
            self._interned.heads.clear()
        elif packet.HasField("interned_data"):
            self._interned.add(packet.interned_data)
        elif not packet.HasField("clock_snapshot"):
            self._others.add(packet)


def _place(track: Track) -> tuple[str, str]:
    """Process and thread, as PyTorch's JSON has them."""
    return ("-1" if track.pid == _MINUS_ONE else track.pid, "-1" if track.tid == _MINUS_ONE else track.tid)
