"""Reader for Chrome's trace JSON from any tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tb_plugin.formats._chrome.document import Document
from tb_plugin.formats._chrome.generic.events import Event, decode
from tb_plugin.formats._chrome.generic.rows import Collected, without_device
from tb_plugin.formats._chrome.memory_estimate import peak_memory_bytes
from tb_plugin.formats._chrome.parse import Tally, no_events, report_of, single_pass
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.chrome_json import FORMATS, READER_ID
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.stream import TextStream
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import RawTrace


class ChromeJsonReader(DeclaredReader, entry=FORMATS[0]):
    """Reads any Chrome trace (docs/formats/chrome.md). Events in phases that are not displayed are only counted."""

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return peak_memory_bytes(sizes)

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawTrace:
        reading = _Reading()
        with single_pass(source, options, reading, decode, progress) as (document, stream):
            return reading.finish(document, stream)


class _Reading:
    def __init__(self) -> None:
        self.log = IssueLog()
        self._collected = Collected(self.log)
        self._has_phases = False

    def take(self, events: Sequence[Event], digits: bool, text_bytes: int) -> None:
        self._collected.add(events, digits)
        self._has_phases = self._has_phases or any(event.ph for event in events)

    def restart(self) -> None:
        self._collected = Collected(self.log)

    def state(self, fraction: float) -> ReadState:
        collected = self._collected
        counts = {kind: count for kind, count in collected.by_kind.items() if count}
        counts |= {"counter": collected.counters.count} if collected.counters.count else {}
        others = collected.event_count - sum(counts.values())
        return ReadState(fraction, collected.event_count, counts | ({"other": others} if others else {}))

    def check(self, is_bare_list: bool) -> None:
        if not self._has_phases and (is_bare_list or self._collected.event_count):
            raise no_events()

    def finish(self, document: Document, stream: TextStream) -> RawTrace:
        collected = self._collected
        columns = collected.finish().raw(document.metadata.get("stackFrames"))
        count = len(columns["start_ns"])
        collected.interner.tell(self.log)
        tally = Tally(collected.event_count, count + collected.counters.count, {})
        return RawTrace(
            **columns,
            **without_device(count),
            strings=StringTable(collected.interner.texts),
            devices=(),
            report=report_of(READER_ID, document, stream, self.log, tally),
            counters=collected.counters.take(),
            process_names=collected.names.processes(),
            thread_names=collected.names.threads(),
            process_order=collected.names.process_order,
            thread_order=collected.names.thread_order,
            metadata={key: value for key, value in document.metadata.items() if key != "stackFrames"},
            base_time_ns=_base_time_ns(document.metadata),
        )


def _base_time_ns(metadata: Mapping[str, Any]) -> int | None:
    """Returns time 0 of the trace in nanoseconds since 1970, or None. Only VizTracer writes this time."""
    stated = metadata.get("viztracer_metadata")
    value = stated.get("baseTimeNanoseconds") if isinstance(stated, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None
