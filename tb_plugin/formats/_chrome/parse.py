"""One pass over the file of a trace, and the report about it: what every dialect does the same way."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._chrome.document import CHOOSE, Document
from tb_plugin.formats._chrome.events import Decode
from tb_plugin.formats.base import Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.issues import IssueLog, is_packed_badly
from tb_plugin.formats.stream import TextStream, text_of
from tb_plugin.model.trace.report import ReadReport

_UNDECODED = ("unreadable_event", "truncated_tail", "event_too_large", "second_event_list", "trailing_events")


class Pass(Protocol):
    """What one pass over the events of a file is for."""

    log: IssueLog

    def take(self, events: Sequence[Any], digits: bool, text_bytes: int) -> None:
        """Takes decoded events; ``text_bytes`` were read of the file so far. Raises NeedsDigits before any change."""
        ...

    def restart(self) -> None:
        """Forgets everything: a later event list replaces the one read so far."""
        ...

    def state(self, fraction: float) -> ReadState:
        """Returns what was read so far, with ``fraction`` of the stored bytes."""
        ...

    def check(self, is_bare_list: bool) -> None:
        """Raises UnreadableTrace when what was read is JSON but no trace."""
        ...


class Passed(Protocol):
    """What is known of a file beside its events when it was passed."""

    metadata: dict[str, Any]
    repaired: int
    complete: bool


class Counted(Protocol):
    """How many bytes a pass took, stored and uncompressed."""

    file_bytes: int
    text_bytes: int


@contextmanager
def passed(
    source: Source, options: ReadOptions, reading: Pass, decode: Decode, progress: Progress
) -> Iterator[tuple[Document, TextStream]]:
    """Gives the source's one file after one pass. Raises UnreadableTrace, StorageError and what ``progress`` raises."""
    head: Mapping[str, Any] = {}

    def tell(done: float) -> None:
        progress(replace(reading.state(done), head=dict(head)))

    with text_of(source, tell, reading.log) as stream, no_garbage_collection():

        def take(events: Sequence[Any], digits: bool) -> None:
            reading.take(events, digits, stream.text_bytes)

        document = Document(stream, options.chunk_bytes, decode, take, reading.restart, reading.log)
        head = document.metadata
        document.read()
        reading.check(document.is_bare_list)
        tell(1.0)
        yield document, stream


def no_events() -> UnreadableTrace:
    """Returns the error for JSON whose list holds something else than events."""
    return UnreadableTrace("The list holds no trace events.", do=CHOOSE)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Holds garbage collection off: events make no cycles, and collecting while decoding would triple the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True)
class Tally:
    """How many events of a pass became what."""

    seen: int
    """Events that were decoded."""
    kept: int
    unknown: Mapping[str, int]
    """Kept without a meaning: category -> events."""
    outside: int = 0
    """Outside the window that was asked for."""


def report_of(reader_id: str, document: Passed, stream: Counted, log: IssueLog, tally: Tally) -> ReadReport:
    """Returns how the file was read. The unknown categories join the log."""
    for category, count in tally.unknown.items():
        text = f"events of the unknown category '{category}' were kept without a meaning"
        log.add("unknown_category", "unknown", count=count, text=text)
    issues = log.issues()
    dropped = sum(issue.count for issue in issues if issue.outcome == "dropped")
    seen = tally.seen + sum(issue.count for issue in issues if issue.code in _UNDECODED)
    return ReadReport(
        format=reader_id,
        file_bytes=stream.file_bytes,
        text_bytes=stream.text_bytes,
        events_seen=seen,
        events_kept=tally.kept,
        events_repaired=document.repaired,
        events_dropped=dropped,
        events_unknown=sum(issue.count for issue in issues if issue.outcome == "unknown"),
        events_other=max(0, seen - tally.kept - dropped - tally.outside),
        events_outside=tally.outside,
        complete=document.complete and not is_packed_badly(issues),
        issues=issues,
    )
