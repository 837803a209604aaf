"""Files of a folder during one read, with a log of problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, BinaryIO, TypeVar

import numpy as np
from msgspec.structs import replace

from tb_plugin.errors import UserError
from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.communication.document import document_in
from tb_plugin.formats.ascend.csv_table import CsvTable, Keep, read_table
from tb_plugin.formats.ascend.database.safe_open import Database, open_database
from tb_plugin.formats.ascend.filenames import READER_ID, by_kind, kind_of
from tb_plugin.formats.ascend.kernel_details import DURATION, NAME, START, Kernels, places_among
from tb_plugin.formats.base import Progress, ReadState, Source
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.stream import TextStream
from tb_plugin.lib.arrays import Bool, Int32
from tb_plugin.model.trace.order import overlaps_range
from tb_plugin.model.trace.report import Issue, ReadReport
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import Window

Found = TypeVar("Found")
LOST = (UserError, OSError)  # errors that affect only one file
_INCOMPLETE = frozenset({"file_lost", "database_cut", "database_damaged"})
_UNSAVED = (
    "the changes in this file are not shown, because the database was copied while a program was "
    "writing it. Close that program (or run PRAGMA wal_checkpoint), then copy the database again."
)
# required columns
_REQUIRED_COLUMNS = {
    files.KERNELS: (NAME, START, DURATION),
    files.BLOCKS: ("Size(KB)", "Allocation Time(us)", "Release Time(us)"),
    files.MEMORY: ("Component", "Timestamp(us)"),
    files.OPERATORS: ("Name",),
    "cluster_step_trace_time.csv": ("Type", "Index"),
}


class ProfileSource(Source):
    """All files of a profile, or one of them. A file that vanished after it was listed has size 0."""

    def __init__(self, source: Source, name: str = "") -> None:
        self._source = source
        self._name = name

    def names(self) -> Sequence[str]:
        return [self._name] if self._name else self._source.names()

    def open(self, name: str) -> BinaryIO:
        """Opens a file. Raises StorageError and OSError."""
        return self._source.open(name)

    def size(self, name: str) -> int:
        try:
            return self._source.size(name)
        except LOST:
            return 0


class OpenedFiles:
    """Files of a folder during one read. An unreadable file is logged, and all other files are still read."""

    def __init__(self, source: Source, names: Mapping[str, str], progress: Progress) -> None:
        self.source = source = ProfileSource(source)
        self.names = names  # the file read for each kind
        self.is_any_read = False
        self.file_bytes = self.text_bytes = 0
        self.issues: list[Issue] = []
        self._progress = progress
        self._logs: list[tuple[str, IssueLog]] = []
        self._total_bytes = max(1, sum(source.size(name) for name in source.names()))
        self._done = 0
        self._state = ReadState(0.0, 0, {})
        self._unread = set(source.names())

    def document(self, kind: str, max_bytes: int = 0) -> tuple[dict[str, Any] | None, IssueLog]:
        """Returns the JSON object in a file about communication, or None, and the log of the file."""
        log = IssueLog()
        self.add_log(kind, log)
        content = self.content(kind, log, max_bytes)
        found = None if content is None else document_in(content, log, max_bytes)
        self.is_any_read = self.is_any_read or found is not None
        return found, log

    def content(self, kind: str, log: IssueLog, max_bytes: int = 0) -> bytes | None:
        """Returns the bytes of a file, or None if it is missing or unreadable. ``max_bytes``: limit; 0 = none."""
        name = self.names.get(kind)
        try:
            return None if name is None else b"".join(self.pieces(name, log, max_bytes))
        except LOST as error:
            self.lost(str(name), error)
            return None

    def database(self, kind: str, of: Callable[[Database], Found | None]) -> Found | None:
        """Returns the result of ``of`` for a database. An unreadable database is logged; the result is None."""
        name = self.names.get(kind)
        if name is None:
            return None
        log, size = IssueLog(), self.source.size(name)
        self._unread.discard(name)
        content: Found | None = None

        def tell(fraction: float) -> None:
            done = self._done + size * fraction
            self._progress(replace(self._state, fraction=min(1.0, done / self._total_bytes)))

        try:
            with open_database(self.source, name, log, tell) as database:
                content = of(database)
        except LOST as error:
            self.lost(name, error)
        else:
            if content is None:
                self.note(name, "no_tables", "the database contains no profile tables. Export the profile again.")
        self.tell(kind, log)
        self.file_bytes += size
        self.text_bytes += size
        self._done += size
        self.is_any_read = self.is_any_read or content is not None
        return content

    def pieces(self, name: str, log: IssueLog, max_bytes: int = 0) -> Iterator[bytes]:
        """Yields the text of a file. Raises UserError if it is unreadable. ``max_bytes`` is a limit; 0 = none."""
        self._unread.discard(name)
        with self.source.open(name) as raw:
            stream = TextStream(raw, self.source.size(name), lambda fraction: None, log)
            while (not max_bytes or stream.text_bytes <= max_bytes) and (part := stream.read(1 << 20)):
                yield part
        self.file_bytes += stream.file_bytes
        self.text_bytes += stream.text_bytes
        self._done += self.source.size(name)
        self._progress(replace(self._state, fraction=min(1.0, self._done / self._total_bytes)))

    def table(self, kind: str, keep: Keep | None = None) -> CsvTable | None:
        """Returns the table in a file. A missing or unreadable file gives None. ``keep`` selects rows."""
        name, log = self.names.get(kind), IssueLog()
        if name is None:
            return None
        try:
            table = read_table(self.pieces(name, log), log, keep)
        except LOST as error:
            self.lost(name, error)
            return None
        self.add_log(kind, log)  # bad cells are found on conversion to numbers
        if table is None:
            self.note(name, "no_heading", "the file has no header, so its columns are unknown")
            return None
        lacking = [title for title in _REQUIRED_COLUMNS.get(kind, ()) if not table.has(title)]
        if lacking:
            text = f"the file is not shown, because it has no column {' and no column '.join(lacking)}"
            self.note(name, "missing_columns", text)
            return None
        self.is_any_read = True
        return table

    def add_log(self, kind: str, log: IssueLog) -> None:
        """Adds a log whose problems are reported at the end of the read."""
        self._logs.append((kind, log))

    def tell_logs(self) -> None:
        """Adds the problems in all logs to the report."""
        for kind, log in self._logs:
            self.tell(kind, log)

    def tell(self, kind: str | None, log: IssueLog) -> None:
        """Adds the problems in ``log`` to the report, for one file, or for the whole profile if ``kind`` is None."""
        file = "" if kind is None else _last(self.names.get(kind, kind))
        self.issues += [replace(issue, file=file) for issue in log.issues()]
        log.entries.clear()

    def lost(self, name: str, error: UserError | OSError) -> None:
        """Logs an unreadable file."""
        why = error.what if isinstance(error, UserError) else error.strerror or str(error)
        self.note(name, "file_lost", f"the file could not be read: {why}")

    def note(self, name: str, code: str, text: str) -> None:
        self.issues.append(Issue(code, "note", text, 1, file=_last(name)))


class _WindowRows:
    """Selects the table rows of a window."""

    def __init__(self, window: Window) -> None:
        self._begin = window.origin_ns + window.begin_ns
        self._end = window.origin_ns + window.end_ns
        self._lag = window.lag_ns

    def keep(self, kind: str) -> Keep | None:
        """Returns the row filter for a kind of file. Returns None if all its rows are needed."""
        return {
            files.KERNELS: self._kernels,
            files.BLOCKS: self._blocks,
            files.MEMORY: self._totals,
            files.MODULES: self._totals,
        }.get(kind)

    def placed(self, kernels: Kernels, columns: Mapping[str, Any]) -> tuple[Kernels, Int32]:
        """Returns the kernels in the window, and the row of each kernel in ``columns``; -1 = none."""
        drawn = np.flatnonzero(columns["kind"] == EventKind.KERNEL)
        row = places_among(kernels, columns["name"], columns["start_ns"], drawn)
        inside = overlaps_range(kernels.start_ns, kernels.start_ns + kernels.dur_ns, self._begin, self._end)
        kept = np.flatnonzero((row != MISSING) | inside)
        return kernels.take(kept), row[kept]

    def _kernels(self, table: CsvTable) -> Bool:
        """Selects kernels near the window, too. ``assemble`` drops those that no call in the window launched."""
        start, has_start = table.nanoseconds(START)
        duration, _ = table.nanoseconds(DURATION)
        return ~has_start | overlaps_range(start, start + duration, self._begin - self._lag, self._end + self._lag)

    def _blocks(self, table: CsvTable) -> Bool:
        start, has_start = table.nanoseconds("Allocation Time(us)")
        end, has_end = table.nanoseconds("Release Time(us)")
        return (~has_start | (start < self._end)) & (~has_end | (end >= self._begin))

    def _totals(self, table: CsvTable) -> Bool:
        time, has_start = table.nanoseconds("Timestamp(us)")
        return ~has_start | (time >= self._begin) & (time < self._end)


class ProfileFiles(OpenedFiles):
    """Files of a profile. This class reads tables, restricted to the window; another reader reads the trace view."""

    def __init__(self, source: Source, progress: Progress, window: Window | None) -> None:
        super().__init__(source, by_kind(source.names()), progress)
        self.rows = (
            _WindowRows(window) if window is not None else None
        )  # selects the rows of a window; None for a complete read
        self._kept: dict[str, CsvTable | None] = {}
        for other in source.names():
            if (kind := kind_of(other)) and (name := self.names[kind]) != other:
                self.note(
                    other, "second_file", f"this file was skipped, because the profile is read from {_last(name)}"
                )
        for name in (name for name in source.names() if name.endswith(files.LOG) and self.source.size(name)):
            self.note(name, "unsaved_changes", _UNSAVED)

    def begin(self, name: str) -> Progress:
        """Returns the progress callback for a file that another reader reads."""
        self._unread.discard(name)

        def tell(state: ReadState) -> None:
            self._state = replace(state, fraction=state.fraction * self.source.size(name) / self._total_bytes)
            self._progress(self._state)

        return tell

    def end(self, name: str, report: ReadReport) -> None:
        """Adds the report of a file that another reader has read."""
        self.is_any_read = True
        self._done += self.source.size(name)
        self.issues += [replace(issue, file=_last(name)) for issue in report.issues]

    def keep(self, kind: str) -> CsvTable | None:
        """Reads a table, and caches it for the next call of ``table``."""
        self._kept[kind] = table = self.table(kind)
        return table

    def table(self, kind: str, keep: Keep | None = None) -> CsvTable | None:
        if kind in self._kept:
            table, self._kept[kind] = self._kept[kind], None
            return table
        return super().table(kind, self.rows.keep(kind) if self.rows is not None else keep)

    def report(self, trace: ReadReport | None, more: int) -> ReadReport:
        """Returns the report about all files. ``more``: number of rows that are not from the trace view."""
        self.tell_logs()
        report = trace or ReadReport(READER_ID, 0, 0)
        unread = sum(self.source.size(name) for name in self._unread)
        dropped = sum(issue.count for issue in self.issues if issue.outcome == "dropped")
        summary = replace(
            report,
            file_bytes=report.file_bytes + self.file_bytes + unread,
            text_bytes=report.text_bytes + self.text_bytes + unread,
            events_in_file=report.events_in_file + more + dropped - report.events_dropped,
            events_loaded=report.events_loaded + more,
            events_dropped=dropped,
            complete=report.complete and not any(issue.code in _INCOMPLETE for issue in self.issues),
            issues=tuple(self.issues),
        )
        self._progress(ReadState(1.0, summary.events_in_file, {"other": summary.events_in_file}))
        return summary


def _last(name: str) -> str:
    return PurePosixPath(name).name
