"""Conversion of any tool's trace to Chrome events: slices, instants, counters, flows.

Packets of different writers are not in order, and the description of a track may follow the track's first event.
Therefore a first pass collects descriptions and clocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.perfetto.clocks import BOOT, Clocks
from tb_plugin.formats.perfetto.gpu_stages import Stages
from tb_plugin.formats.perfetto.interned import Interned, clean_text, float_json, text_json
from tb_plugin.formats.perfetto.schema import BEGIN, COUNTER, END, INSTANT, Trace
from tb_plugin.formats.perfetto.skipped_packets import Unshown
from tb_plugin.formats.perfetto.tracks import CounterTrack, Tracks, name_event

_CLEARED, _NEEDS_STATE = 1, 2  # packet flags: the sequence's state is cleared; the packet needs the state
_PHASES = {BEGIN: "B", END: "E", INSTANT: "i"}
_LEGACY = {**{phase: phase for phase in "BEXbneSTFpstf"}, "i": "i", "I": "i", "R": "i"}
"""Chrome phases that a packet may contain instead of a type. Old phases of instants become "i"."""


class _Sequence:
    def __init__(self, log: IssueLog) -> None:
        self._log = log
        self.clear()
        self.is_known = False  # whether the state is complete, without lost packets

    def clear(self) -> None:
        self.interned = Interned(self._log, of_torch=False)
        self.track = 0
        self.extra_counters: list[int] = []
        self.extra_doubles: list[int] = []
        self.clock_id = BOOT
        self.totals: dict[int, int] = {}  # counter -> sum of its changes
        self.delta_ns = 0
        self.is_known = True


class ToolText:
    def __init__(self, log: IssueLog) -> None:
        self._log = log
        self._clocks = Clocks(log)
        self._tracks = Tracks(log)
        self._stages = Stages(0, log)
        self._sequences: dict[int, _Sequence] = {}
        self._unshown = Unshown(log)
        self._flows: set[int] = set()  # open flows

    messages = Trace

    @property
    def base_ns(self) -> int | None:
        """Returns time 0 of the trace in nanoseconds since 1970, or None if unknown."""
        return self._clocks.real_ns()

    def look(self, batch: list[Any]) -> None:
        for packet in batch:
            if packet.HasField("track_descriptor"):
                self._tracks.add(packet.track_descriptor)
            if packet.HasField("clock_snapshot"):
                self._clocks.add(packet)

    def root(self) -> dict[str, Any]:
        return {}

    def events(self, batch: list[Any]) -> Iterator[str]:
        for packet in batch:
            sequence = self._sequences.get(packet.sequence)
            if sequence is None:
                sequence = self._sequences[packet.sequence] = _Sequence(self._log)
            flags = packet.sequence_flags
            if packet.previous_dropped:
                sequence.is_known = False
            if flags & _CLEARED or packet.state_cleared:
                sequence.clear()
            if flags & _NEEDS_STATE and not sequence.is_known:
                self._log.add("lost_state", "dropped")
                continue
            yield from self._packet_events(packet, sequence)

    def finish(self) -> Iterator[str]:
        described = set()
        for event, track, name in self._tracks.names():
            described.add(track.pid)
            yield name_event(event, track.pid, track.tid, name)
        yield from self._stages.names(described)
        self._unshown.report()

    def _packet_events(self, packet: Any, sequence: _Sequence) -> Iterator[str]:
        has = packet.HasField
        is_known = False
        if has("clock_snapshot"):
            self._clocks.at(packet)
            is_known = True
        if has("defaults"):
            self._take_defaults(packet.defaults, sequence)
            is_known = True
        if has("interned_data"):
            sequence.interned.add(packet.interned_data)
            is_known = True
        if has("track_event"):
            yield from self._track_event(packet, sequence)
        elif has("render_stage"):
            yield self._stages.stage(packet, sequence.interned, self._time(packet, sequence))
        elif has("gpu_counter_event"):
            yield from self._stages.counters(packet, sequence.interned, self._time(packet, sequence))
        elif not is_known and not has("track_descriptor"):
            self._unshown.add(packet)

    def _take_defaults(self, defaults: Any, sequence: _Sequence) -> None:
        if defaults.HasField("clock_id"):
            sequence.clock_id = defaults.clock_id
        if defaults.HasField("track_event"):
            event = defaults.track_event
            sequence.track = event.track_uuid
            sequence.extra_counters = list(event.extra_counter_track_uuids)
            sequence.extra_doubles = list(event.extra_double_counter_track_uuids)

    def _time(self, packet: Any, sequence: _Sequence) -> int:
        clock_id = packet.clock_id if packet.HasField("clock_id") else sequence.clock_id
        return self._clocks.main_ns(self._clocks.of(packet.sequence, clock_id), packet.timestamp)

    def _track_event(self, packet: Any, sequence: _Sequence) -> Iterator[str]:
        event = packet.track_event
        time = self._time(packet, sequence)
        uuid = event.track_uuid if event.HasField("track_uuid") else sequence.track
        thread_time = ""
        for counter, value in self._extra_counters(event, sequence):
            if counter.is_thread_time:
                thread_time = f',"tts":{_us(int(value))}'
            else:
                yield self._counter(counter, value, time)
        if event.type == COUNTER:
            is_double = event.HasField("double_counter_value")
            reported = event.double_counter_value if is_double else event.counter_value
            counter = self._tracks.counter(uuid)
            yield self._counter(counter, _value(counter, reported, sequence), time)
            return
        legacy = event.legacy_event if event.HasField("legacy_event") else None
        phase = _PHASES.get(event.type)
        if legacy is not None and legacy.phase:
            phase = _LEGACY.get(chr(legacy.phase & 127), phase)
        if phase is None:
            self._log.add("unknown_type", "dropped")
            return
        track = self._tracks[uuid]
        place = f'"pid":{track.pid},"tid":{track.tid},"ts":{_us(time)}{thread_time}'
        more = self._legacy(legacy, phase) if legacy is not None else ""
        args = ",".join(map(sequence.interned.annotations.__getitem__, event.annotations))
        head = (
            "" if phase == "E" else f'"cat":{self._categories(event, sequence)},"name":{self._name(event, sequence)},'
        )
        yield f'{{"ph":"{phase}",{head}{place}{more},"args":{{{args}}}}}'
        if phase != "E":
            yield from self._flow_ends(event, place)

    def _categories(self, event: Any, sequence: _Sequence) -> str:
        known = sequence.interned.categories
        texts = [known.get(iid, "") for iid in event.category_iids]
        return text_json(",".join(texts + [clean_text(raw, self._log) for raw in event.categories]))

    def _name(self, event: Any, sequence: _Sequence) -> str:
        iid = event.name_iid or (event.legacy_event.name_iid if event.HasField("legacy_event") else 0)
        return text_json(
            sequence.interned.names.get(iid, f"(name {iid})") if iid else clean_text(event.name, self._log)
        )

    def _legacy(self, legacy: Any, phase: str) -> str:
        more = f',"dur":{max(0, legacy.duration_us)}' if phase == "X" else ""
        for field, form in (
            ("unscoped_id", '"id":"{}"'),
            ("local_id", '"id2":{{"local":"{}"}}'),
            ("global_id", '"id2":{{"global":"{}"}}'),
        ):
            if legacy.HasField(field):
                more += "," + form.format(hex(getattr(legacy, field)))
        if legacy.id_scope:
            more += f',"scope":{text_json(clean_text(legacy.id_scope, self._log))}'
        return more

    def _extra_counters(self, event: Any, sequence: _Sequence) -> Iterator[tuple[CounterTrack, float]]:
        for uuids, values in (
            (event.extra_counter_track_uuids or sequence.extra_counters, event.extra_counter_values),
            (event.extra_double_counter_track_uuids or sequence.extra_doubles, event.extra_double_counter_values),
        ):
            for uuid, value in zip(uuids, values, strict=False):
                counter = self._tracks.counter(uuid)
                yield counter, _value(counter, value, sequence)

    def _counter(self, counter: CounterTrack, value: float, time: int) -> str:
        text = float_json(value) if isinstance(value, float) else str(value)
        return f'{{"ph":"C","name":{counter.name},"pid":{counter.pid},"ts":{_us(time)},"args":{{"":{text}}}}}'

    def _flow_ends(self, event: Any, place: str) -> Iterator[str]:
        """Yields flow events: the first with an id starts the flow, later ones continue it, a terminating id ends it."""
        passing = {*event.flow_ids, *event.old_flow_ids}
        ending = {*event.ending_flow_ids, *event.old_ending_flow_ids}
        for flow in sorted(passing | ending):
            phase = "t" if flow in self._flows else "s"
            if flow in ending:
                phase = "f"
                self._flows.discard(flow)
            else:
                self._flows.add(flow)
            bound = ',"bp":"e"' if phase == "f" else ""
            yield f'{{"ph":"{phase}","cat":"flow","name":"flow","id":"{flow}",{place}{bound}}}'


def _value(counter: CounterTrack, reported: float, sequence: _Sequence) -> float:
    """Returns the value of a counter. For an incremental counter, this is the sum of all changes."""
    if counter.is_incremental and isinstance(reported, int):
        reported = sequence.totals[counter.uuid] = sequence.totals.get(counter.uuid, 0) + reported
    return reported * counter.multiplier


def _us(time: int) -> str:
    whole, part = divmod(abs(time), 1000)
    return f"{'-' if time < 0 else ''}{whole}.{part:03d}"
