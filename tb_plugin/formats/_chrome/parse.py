"""One pass over a trace file, and the report of the read."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec
from msgspec.structs import replace

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._chrome.document import CHOOSE, Document
from tb_plugin.formats._chrome.events import Decode
from tb_plugin.formats.base import Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.issues import IssueLog, is_packed_badly
from tb_plugin.formats.stream import TextStream, text_of
from tb_plugin.model.trace.report import ReadReport

if TYPE_CHECKING:
    from tb_plugin.formats._chrome.pieces import DividedPass, Pieces

_UNDECODED = ("unreadable_event", "truncated_tail", "event_too_large", "second_event_list", "trailing_events")


class Pass(Protocol):
    log: IssueLog

    def take(self, events: Sequence[Any], digits: bool, text_bytes: int) -> None:
        """Adds events. May raise NeedsDigits, but only before anything is added. ``text_bytes``: text read so far."""
        ...

    def restart(self) -> None:
        """Discards all events read so far, because a later event list replaces them."""
        ...

    def state(self, fraction: float) -> ReadState:
        """Returns the progress. ``fraction`` is the share of the stored bytes read so far."""
        ...

    def check(self, is_bare_list: bool) -> None: ...


class Passed(Protocol):
    metadata: dict[str, Any]
    repaired: int
    complete: bool


class Counted(Protocol):
    file_bytes: int
    text_bytes: int


@contextmanager
def single_pass(
    source: Source, options: ReadOptions, reading: Pass, decode: Decode, progress: Progress
) -> Iterator[tuple[Document, TextStream]]:
    """Reads the only file, and yields document and stream. Raises UnreadableTrace, StorageError, progress errors."""
    head: Mapping[str, Any] = {}

    def report_progress(done: float) -> None:
        progress(replace(reading.state(done), head=dict(head)))

    with text_of(source, report_progress, reading.log) as stream, no_garbage_collection():

        def take(events: Sequence[Any], digits: bool) -> None:
            reading.take(events, digits, stream.text_bytes)

        with _pieces(options, decode, reading) as pieces:
            document = Document(stream, options.chunk_bytes, decode, take, reading.restart, reading.log, pieces)
            head = document.metadata
            document.read()
        reading.check(document.is_bare_list)
        report_progress(1.0)
        yield document, stream


@contextmanager
def _pieces(options: ReadOptions, decode: Decode, reading: Pass) -> Iterator[Pieces | None]:
    """Yields the decoder processes. Yields None if one process reads the file: for a survey, a window or a small file."""
    if options.decoders < 2 or options.window is not None or not hasattr(reading, "take_piece"):
        yield None
        return
    from tb_plugin.formats._chrome.pieces import Pieces, is_supported

    if not is_supported():
        yield None
        return
    pieces = Pieces(options.decoders, options.piece_bytes, decode, cast("DividedPass", reading))
    try:
        yield pieces
    finally:
        pieces.close()


def no_events() -> UnreadableTrace:
    return UnreadableTrace("The list in this file contains no trace events.", do=CHOOSE)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disables garbage collection, because it would triple the decoding time. Events form no reference cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Tally(msgspec.Struct, frozen=True):
    decoded: int  # decoded events
    loaded: int
    unknown: Mapping[str, int]  # number of events of unknown category, by category
    outside: int = 0  # number of events outside the requested window


def report_of(reader_id: str, document: Passed, stream: Counted, log: IssueLog, tally: Tally) -> ReadReport:
    for category, count in tally.unknown.items():
        text = f"events of the unknown category '{category}' were loaded, but their type is unknown"
        log.add("unknown_category", "unknown", count=count, text=text)
    issues = log.issues()
    dropped = sum(issue.count for issue in issues if issue.outcome == "dropped")
    seen = tally.decoded + sum(issue.count for issue in issues if issue.code in _UNDECODED)
    return ReadReport(
        format=reader_id,
        file_bytes=stream.file_bytes,
        text_bytes=stream.text_bytes,
        events_in_file=seen,
        events_loaded=tally.loaded,
        events_repaired=document.repaired,
        events_dropped=dropped,
        events_unknown=sum(issue.count for issue in issues if issue.outcome == "unknown"),
        events_other=max(0, seen - tally.loaded - dropped - tally.outside),
        events_outside=tally.outside,
        complete=document.complete and not is_packed_badly(issues),
        issues=issues,
    )
