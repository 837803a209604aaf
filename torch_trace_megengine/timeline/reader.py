"""Reader for MegEngine's timelines.

A file is read as a whole, because a profile has only a few steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tb_plugin.formats._chrome.document import Document
from tb_plugin.formats._chrome.memory_estimate import peak_memory_bytes
from tb_plugin.formats._chrome.parse import Tally, no_events, report_of, single_pass
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.stream import TextStream
from tb_plugin.model.trace.table import RawTrace
from torch_trace_megengine.profiler import MEGENGINE
from torch_trace_megengine.timeline import FORMATS
from torch_trace_megengine.timeline.counting import counters_of
from torch_trace_megengine.timeline.events import Collected, Event, decode
from torch_trace_megengine.timeline.filenames import READER_ID
from torch_trace_megengine.timeline.timeline import Timeline


class MegEngineReader(DeclaredReader, entry=FORMATS[0]):
    """Reads ``<pid>.chrome_timeline.json`` and the output of ``merge_trace_events``."""

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return peak_memory_bytes(sizes)

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawTrace:
        reading = _Reading(options)
        with single_pass(source, options, reading, decode, progress) as (document, stream):
            return reading.finish(document, stream)


class _Reading:
    def __init__(self, options: ReadOptions) -> None:
        self.log = IssueLog()
        self._rules = options.class_rules
        self._collected = Collected(self.log)
        self._has_phases = False

    def take(self, events: Sequence[Event], digits: bool, text_bytes: int) -> None:
        self._collected.add(events, digits)
        self._has_phases = self._has_phases or any(event.ph for event in events)

    def restart(self) -> None:
        self._collected = Collected(self.log)

    def state(self, fraction: float) -> ReadState:
        collected = self._collected
        # The kind of an event depends on other events, so it is unknown before the end.
        counts = {"counter": collected.counters.count, "other": collected.event_count - collected.counters.count}
        return ReadState(fraction, collected.event_count, {kind: count for kind, count in counts.items() if count})

    def check(self, is_bare_list: bool) -> None:
        if not self._has_phases and (is_bare_list or self._collected.event_count):
            raise no_events()

    def finish(self, document: Document, stream: TextStream) -> RawTrace:
        collected = self._collected
        counters = counters_of(collected.counters.take(), collected.interner)
        timeline = Timeline(collected.take(), collected.interner, collected.names.threads())
        columns = timeline.raw(self.log, self._rules)
        collected.interner.tell(self.log)
        tally = Tally(collected.event_count, timeline.count + collected.counters.count, {})
        return RawTrace(
            **columns,
            report=report_of(READER_ID, document, stream, self.log, tally),
            counters=counters.events,
            counter_series=counters.series,
            memory=counters.memory,
            process_names=collected.names.processes(),
            thread_names={**collected.names.threads(), **timeline.places.titles},
            metadata=document.metadata,
            base_time_ns=_local_time_ns(document.metadata, collected.local_times),
            recorder=MEGENGINE,
        )


def _local_time_ns(metadata: Mapping[str, Any], of_processes: Mapping[str, Any]) -> int | None:
    """Returns time 0 in nanoseconds since 1970, otherwise the earliest time 0 of a process."""
    own = metadata.get("metadata")
    stated = own.get("localTime") if isinstance(own, dict) else None
    found = [_integer(value) for value in ([stated] if stated is not None else of_processes.values())]
    return min((value for value in found if value is not None), default=None)


def _integer(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None
