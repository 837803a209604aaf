"""Reader for Kineto traces."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace

from tb_plugin.devices import describe_all, unit_of_counter
from tb_plugin.formats._chrome.columns import Values
from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats._chrome.memory_estimate import peak_memory_bytes, room_bytes
from tb_plugin.formats._chrome.parse import Counted, Passed, Tally, no_events, report_of, single_pass
from tb_plugin.formats._chrome.times import NeedsDigits
from tb_plugin.formats.base import FileSize, JobInfo, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.classify import call_names, class_names, name_flags, own_communication
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import Entries, IssueLog
from tb_plugin.formats.kineto import FORMATS
from tb_plugin.formats.kineto.collector import Collector, CollectorPiece
from tb_plugin.formats.kineto.decoding import Decoding
from tb_plugin.formats.kineto.events import Event
from tb_plugin.formats.kineto.filenames import READER_ID, process_in
from tb_plugin.formats.kineto.identity import identify
from tb_plugin.formats.kineto.torch_2_14 import (
    bound_arrows,
    complete_arguments,
    concatenate_arrows,
    dependencies,
    intern_regions,
)
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.model.trace.hardware import DeviceInfo
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.steps.annotations import with_own
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import (
    CollectiveArgs,
    CounterEvents,
    CounterSeries,
    DeviceArgs,
    MemoryEvents,
    OperatorArgs,
    PythonArgs,
    RawTrace,
)
from tb_plugin.model.trace.window import Survey
from tb_plugin.profilers import PYTORCH, PYTORCH_LEGACY


class KinetoReader(DeclaredReader, entry=FORMATS[0]):
    """Reads the JSON of torch.profiler, from all releases since 2020."""

    def identify(self, names: Sequence[str], head: Callable[[str], bytes]) -> JobInfo | None:
        return identify(head(names[0]))

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return peak_memory_bytes(sizes)

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawTrace:
        reading = Reading(options)
        with single_pass(source, options, reading, reading.decoding, progress) as (document, stream):
            if "host_name" not in document.metadata and (process := process_in(source.names()[0])):
                document.metadata["file_process"] = process
            return reading.finish(document, stream)

    def reading(self, options: ReadOptions) -> Reading:
        return Reading(options)

    def survey(self, source: Source, options: ReadOptions, progress: Progress) -> Survey:
        from tb_plugin.formats.kineto.windows import KinetoSurvey

        surveying = KinetoSurvey(with_own(PYTORCH.steps, options.own_steps))
        with single_pass(source, options, surveying, Decoding(), progress):
            return surveying.finish()

    def room_bytes(self, memory_bytes: int) -> int:
        return room_bytes(memory_bytes)


class Reading:
    def __init__(self, options: ReadOptions) -> None:
        self.log = IssueLog()
        self._window = options.window
        self._class_rules = options.class_rules
        self.decoding = Decoding()
        self._collector = Collector(self.log, self.decoding, options.window)
        self._has_phases = False

    def take(self, events: Sequence[Event], digits: bool, text_bytes: int) -> None:
        self._collector.add(events, digits)
        self._has_phases = self._has_phases or any(event.ph for event in events)

    def text_count(self) -> int:
        return len(self._collector.interner.texts)

    def take_piece(self) -> tuple[CollectorPiece, bool, Entries] | None:
        piece, entries = self._collector.take_piece(), self.log.take_entries()
        has_phases, self._has_phases = self._has_phases, False
        return None if piece is None else (piece, has_phases, entries)

    def merge_piece(self, piece: tuple[CollectorPiece, bool, Entries], ids: Int32) -> Int32 | None:
        collected, has_phases, entries = piece
        merged = self._collector.merge_piece(collected, ids)
        if merged is not None:
            self._has_phases = self._has_phases or has_phases
            self.log.merge(entries)
        return merged

    def take_text(self, text: bytes) -> None:
        """Adds the events of a JSON list. Raises one of NOT_DECODED."""
        try:
            self.take(self.decoding(text, False), False, 0)
        except NeedsDigits:
            self.take(self.decoding(text, True), True, 0)

    def text_ids(self, texts: Sequence[str]) -> Int32:
        return self._collector.interner.names.of(texts)

    def take_columns(
        self,
        start_ns: Int64,
        ids: Sequence[Int32],
        args: Mapping[str, tuple[Int64, Values]],
    ) -> int:
        """Adds host ranges from arrays; see ``RowColumns.add_columns``. Returns the index of the first row."""
        self._has_phases = True
        return self._collector.add_columns(start_ns, ids, args)

    def set_durations(self, first: int, dur_ns: Int64) -> None:
        self._collector.rows.set_durations(first, dur_ns)

    def restart(self) -> None:
        self._collector = Collector(self.log, self.decoding, self._window)

    def state(self, fraction: float) -> ReadState:
        return ReadState(fraction, self._collector.event_count, self._collector.counts())

    def check(self, is_bare_list: bool) -> None:
        if not self._has_phases and (is_bare_list or self._collector.event_count):
            raise no_events()

    def finish(self, document: Passed, stream: Counted) -> RawTrace:
        """Returns the trace. Call it once, after the last event."""
        collector = self._collector
        collector.close_marks()
        flows, unmatched = collector.arrows.take()
        if unmatched:
            self.log.add("unpaired_flow" if collector.cut is None else "cut_flow", "note", count=unmatched)
        arrows, unmatched = collector.dependencies.take()
        bound_flows, unmatched_bound = collector.bound.take()
        if unmatched + unmatched_bound:
            self.log.add("unpaired_arrow", "note", count=unmatched + unmatched_bound)
        collector.interner.tell(self.log)
        if self.decoding.left_out:
            self.log.add("other_arguments", "note")
        legacy = collector.rows.legacy_device_rows
        if legacy:
            self.log.add("legacy_device_rows", "unknown", count=legacy)
        memory = collector.memory.take()
        loaded = collector.rows.count + collector.memory.count + collector.counters.count
        outside = 0 if collector.cut is None else collector.cut.outside
        tally = Tally(collector.event_count, loaded, collector.rows.unknown, outside)
        core = collector.rows.take()
        sections = collector.rows.sections
        collectives = CollectiveArgs(**sections.collectives.take())
        classes = class_names(core, collector.interner, self._class_rules, self.log)
        counters, series = of_devices(collector.counters.take(), collector.interner)
        others = collector.rows.others.take()
        intern_regions(others, collector.interner)
        device_args = complete_arguments(
            DeviceArgs(**sections.device.take()), others, len(core.kind), collector.interner
        )
        drawn = concatenate_arrows(
            dependencies(arrows, core, collector.interner), bound_arrows(bound_flows, collector.interner)
        )
        texts = collector.interner.texts
        return RawTrace(
            **asdict(core),
            **name_flags(core, texts, collectives.row, own_communication(core, classes)),
            strings=StringTable(texts),
            devices=_devices(document.metadata, list(collector.rows.device_ids), memory),
            report=report_of(READER_ID, document, stream, self.log, tally),
            operators=OperatorArgs(**sections.operators.take()),
            python=PythonArgs(**sections.python.take()),
            device_args=device_args,
            collectives=collectives,
            memory=memory,
            counters=counters,
            counter_series=series,
            flows=flows,
            arrows=drawn,
            process_names=collector.names.processes(),
            thread_names=collector.names.threads(),
            metadata=document.metadata,
            base_time_ns=_base_time_ns(document.metadata),
            window=self._window,
            recorder=PYTORCH_LEGACY if legacy else PYTORCH,
            calls=call_names(core, texts),
            classes=classes,
            others=others,
        )


def _devices(metadata: Mapping[str, Any], device_ids: list[str], memory: MemoryEvents) -> tuple[DeviceInfo, ...]:
    """Returns the devices of the rows, followed by devices that occur only in ``deviceProperties``."""
    listed: dict[str, Mapping[str, Any]] = {}
    properties = metadata.get("deviceProperties")
    for item in properties if isinstance(properties, list) else ():
        if isinstance(item, dict) and "id" in item:
            listed.setdefault(str(item["id"]), item)
    # Device type 0 is the host.
    allocating = np.unique(memory.device_id[(memory.device_type != 0) & (memory.device_id >= 0)]).tolist()
    return describe_all(device_ids, listed, allocating, frozenset(metadata))


def _base_time_ns(metadata: Mapping[str, Any]) -> int | None:
    value = metadata.get("baseTimeNanoseconds")
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    is_time = isinstance(value, int) and not isinstance(value, bool) and abs(value) < np.iinfo(np.int64).max
    return value if is_time else None


MOST_OF_ONE_NAME = 16  # groups of equally named series with more members are not renumbered
_PROCESS = re.compile(r"GPU (\d+) Counters\Z")


def of_devices(counters: CounterEvents, interner: Interner) -> tuple[CounterEvents, CounterSeries]:
    """Returns the counters, and the device and unit of each series. Series of the same device get unique names."""
    devices = {
        int(pid): found[1] for pid in np.unique(counters.pid) if (found := _PROCESS.match(interner.texts[int(pid)]))
    }
    if not devices:
        return counters, CounterSeries()
    counters = _numbered_series(counters, np.isin(counters.pid, list(devices)), interner)
    rows = np.flatnonzero(np.isin(counters.pid, list(devices)))
    pid, name, series = np.unique(np.stack([c[rows] for c in (counters.pid, counters.name, counters.series)]), axis=1)
    units = [unit_of_counter(interner.texts[each]) for each in name.tolist()]
    known = CounterSeries(
        pid=pid,
        name=name,
        series=series,
        unit=np.array([interner.text(unit) if unit else MISSING for unit in units], np.int32),
        device=np.array([interner.text(devices[each]) for each in pid.tolist()], np.int32),
    )
    return counters, known


def _numbered_series(counters: CounterEvents, chosen: Bool, interner: Interner) -> CounterEvents:
    """Numbers the series that always have the same count of values at one time, aggregated in several ways."""
    rows = np.flatnonzero(chosen)
    _, key = np.unique(
        np.stack([column[rows] for column in (counters.pid, counters.name, counters.series)]),
        axis=1,
        return_inverse=True,
    )
    pairs = np.stack((key.ravel().astype(np.int64), counters.time_ns[rows]))
    moments, moment, size = np.unique(pairs, axis=1, return_inverse=True, return_counts=True)
    most, least = (np.full(int(moments[0][-1]) + 1, start, np.int64) for start in (0, len(rows)))
    np.maximum.at(most, moments[0], size)
    np.minimum.at(least, moments[0], size)
    order = np.argsort(moment.ravel(), kind="stable")
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows)) - np.repeat(np.cumsum(size) - size, size)
    renamed = np.flatnonzero(((most > 1) & (most <= MOST_OF_ONE_NAME) & (least == most))[key.ravel()])
    pairs = np.stack((counters.series[rows[renamed]].astype(np.int64), place[renamed]))
    names, which = np.unique(pairs, axis=1, return_inverse=True)
    ids = [interner.text(f"{interner.texts[text]} #{number + 1}".strip()) for text, number in names.T.tolist()]
    series = counters.series.copy()
    series[rows[renamed]] = np.array(ids, np.int32)[which.ravel()]
    return replace(counters, series=series)
