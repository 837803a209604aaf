"""Reader for Chrome's trace JSON from any tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tb_plugin.formats._chrome.document import Document
from tb_plugin.formats._chrome.generic.events import decode
from tb_plugin.formats._chrome.generic.rows import EventPass, without_device
from tb_plugin.formats._chrome.memory_estimate import peak_memory_bytes
from tb_plugin.formats._chrome.parse import Tally, report_of, single_pass
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, Source
from tb_plugin.formats.chrome_json import FORMATS, READER_ID
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.stream import TextStream
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import RawTrace


class ChromeJsonReader(DeclaredReader, entry=FORMATS[0]):
    """Reads any Chrome trace (docs/formats/chrome.md). Events in phases that are not displayed are only counted."""

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return peak_memory_bytes(sizes)

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawTrace:
        events = EventPass()
        with single_pass(source, options, events, decode, progress) as (document, stream):
            return _raw(events, document, stream)


def _raw(events: EventPass, document: Document, stream: TextStream) -> RawTrace:
    collected = events.collected
    columns = collected.finish().raw(document.metadata.get("stackFrames"))
    count = len(columns["start_ns"])
    collected.interner.tell(events.log)
    tally = Tally(collected.event_count, count + collected.counters.count, {})
    return RawTrace(
        **columns,
        **without_device(count),
        strings=StringTable(collected.interner.texts),
        devices=(),
        report=report_of(READER_ID, document, stream, events.log, tally),
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
