"""The Reader of Kineto and Chrome JSON traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tb_plugin.devices import describe_all
from tb_plugin.formats._chrome.columns import Values
from tb_plugin.formats._chrome.memory_estimate import need_bytes, room_bytes
from tb_plugin.formats._chrome.parse import Counted, Passed, Tally, no_events, passed, report_of
from tb_plugin.formats._chrome.times import NeedsDigits
from tb_plugin.formats.base import FileSize, JobInfo, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.classify import call_names, class_names, name_flags, own_communication
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.kineto import FORMATS
from tb_plugin.formats.kineto.collector import Collector
from tb_plugin.formats.kineto.decoding import Decoding
from tb_plugin.formats.kineto.device_counters import of_devices
from tb_plugin.formats.kineto.events import Event
from tb_plugin.formats.kineto.filenames import READER_ID, process_in
from tb_plugin.formats.kineto.identity import identify
from tb_plugin.formats.kineto.survey import KinetoSurvey
from tb_plugin.formats.kineto.torch_2_14 import bound, completed, concatenate_arrows, dependencies, intern_regions
from tb_plugin.model.trace.hardware import DeviceInfo
from tb_plugin.model.trace.steps.annotations import with_own
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import CollectiveArgs, DeviceArgs, MemoryEvents, OperatorArgs, PythonArgs, RawTrace
from tb_plugin.model.trace.window import Survey
from tb_plugin.profilers import PYTORCH, PYTORCH_LEGACY


class KinetoReader(DeclaredReader, entry=FORMATS[0]):
    """Reads the JSON that torch.profiler writes, in the dialects of all its releases since 2020."""

    def identify(self, names: Sequence[str], head: Callable[[str], bytes]) -> JobInfo | None:
        """Returns what the file states ahead of its events of the job that it was recorded in."""
        return identify(head(names[0]))

    def need_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        """Returns the memory that reading files of these sizes takes at its peak."""
        return need_bytes(sizes)

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawTrace:
        """Returns the source's file, or a window of it. Raises UnreadableTrace, StorageError and what ``progress`` raises."""
        reading = Reading(options)
        with passed(source, options, reading, reading.decoding, progress) as (document, stream):
            if "host_name" not in document.metadata and (process := process_in(source.names()[0])):
                document.metadata["file_process"] = process
            return reading.finish(document, stream)

    def reading(self, options: ReadOptions) -> Reading:
        """Returns a read whose events the caller hands over, of a whole trace."""
        return Reading(options)

    def survey(self, source: Source, options: ReadOptions, progress: Progress) -> Survey:
        """Returns what is when in the source's one file. Raises what ``read`` raises."""
        surveying = KinetoSurvey(with_own(PYTORCH.steps, options.own_steps))
        with passed(source, options, surveying, Decoding(), progress):
            return surveying.finish()

    def room_bytes(self, memory_bytes: int) -> int:
        """Returns how many bytes of text a read can keep in so much memory."""
        return room_bytes(memory_bytes)


class Reading:
    """One read in progress."""

    def __init__(self, options: ReadOptions) -> None:
        self.log = IssueLog()
        self._window = options.window
        self._class_rules = options.class_rules
        self.decoding = Decoding()
        self._collector = Collector(self.log, self.decoding, options.window)
        self._phases_seen = False

    def take(self, events: Sequence[Event], digits: bool, text_bytes: int) -> None:
        """Takes decoded events: the sink of the document."""
        self._collector.add(events, digits)
        self._phases_seen = self._phases_seen or any(event.ph for event in events)

    def take_text(self, text: bytes) -> None:
        """Takes a JSON list of events. Raises one of NOT_DECODED."""
        try:
            self.take(self.decoding(text, False), False, 0)
        except NeedsDigits:
            self.take(self.decoding(text, True), True, 0)

    def text_ids(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        """Returns the string ids of texts, for ``take_columns``."""
        return self._collector.interner.names.of(texts)

    def take_columns(
        self,
        start_ns: npt.NDArray[np.int64],
        ids: Sequence[npt.NDArray[np.int32]],
        args: Mapping[str, tuple[npt.NDArray[np.int64], Values]],
    ) -> int:
        """Takes ranges of the host that are columns already; see ``RowColumns.add_columns``. Returns the first row."""
        self._phases_seen = True
        return self._collector.add_columns(start_ns, ids, args)

    def set_durations(self, first: int, dur_ns: npt.NDArray[np.int64]) -> None:
        """Sets the durations of rows that were taken as columns and follow each other."""
        self._collector.rows.set_durations(first, dur_ns)

    def restart(self) -> None:
        """Forgets everything: a later event list replaces the one read so far."""
        self._collector = Collector(self.log, self.decoding, self._window)

    def state(self, fraction: float) -> ReadState:
        """Returns what was read so far, with ``fraction`` of the stored bytes."""
        return ReadState(fraction, self._collector.seen, self._collector.counts())

    def check(self, is_bare_list: bool) -> None:
        """Raises UnreadableTrace when what was read is JSON but no trace."""
        if not self._phases_seen and (is_bare_list or self._collector.seen):
            raise no_events()

    def finish(self, document: Passed, stream: Counted) -> RawTrace:
        """Returns the finished trace."""
        collector = self._collector
        collector.close_marks()
        flows, lonely = collector.arrows.take()
        if lonely:
            self.log.add("unpaired_flow" if collector.cut is None else "cut_flow", "note", count=lonely)
        arrows, lonely = collector.dependencies.take()
        ties, loose = collector.bound.take()
        if lonely + loose:
            self.log.add("unpaired_arrow", "note", count=lonely + loose)
        collector.interner.tell(self.log)
        if self.decoding.left_out:
            self.log.add("other_arguments", "note")
        legacy = collector.rows.legacy_device_rows
        if legacy:
            self.log.add("legacy_device_rows", "unknown", count=legacy)
        memory = collector.memory.take()
        kept = collector.rows.count + collector.memory.count + collector.counters.count
        outside = 0 if collector.cut is None else collector.cut.outside
        tally = Tally(collector.seen, kept, collector.rows.unknown, outside)
        core = collector.rows.take()
        sections = collector.rows.sections
        collectives = CollectiveArgs(**sections.collectives.take())
        classes = class_names(core, collector.interner, self._class_rules, self.log)
        counters, series = of_devices(collector.counters.take(), collector.interner)
        others = collector.rows.others.take()
        intern_regions(others, collector.interner)
        device_args = completed(DeviceArgs(**sections.device.take()), others, len(core.kind), collector.interner)
        drawn = concatenate_arrows(dependencies(arrows, core, collector.interner), bound(ties, collector.interner))
        texts = collector.interner.texts
        return RawTrace(
            **vars(core),
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


def _devices(metadata: Mapping[str, Any], seen: list[str], memory: MemoryEvents) -> tuple[DeviceInfo, ...]:
    """Devices in the order of their positions: those of the rows first, then those only ``deviceProperties`` lists."""
    listed: dict[str, Mapping[str, Any]] = {}
    properties = metadata.get("deviceProperties")
    for item in properties if isinstance(properties, list) else ():
        if isinstance(item, dict) and "id" in item:
            listed.setdefault(str(item["id"]), item)
    # Device type 0 is the host.
    allocating = np.unique(memory.device_id[(memory.device_type != 0) & (memory.device_id >= 0)]).tolist()
    return describe_all(seen, listed, allocating, frozenset(metadata))


def _base_time_ns(metadata: Mapping[str, Any]) -> int | None:
    value = metadata.get("baseTimeNanoseconds")
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    is_time = isinstance(value, int) and not isinstance(value, bool) and abs(value) < np.iinfo(np.int64).max
    return value if is_time else None
