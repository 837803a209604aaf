"""The Reader of Ascend's profiles: a folder of many files, of which any may be missing, cut off or unreadable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from tb_plugin.devices import describe_all
from tb_plugin.errors import UnreadableTrace, UserError
from tb_plugin.readers.ascend import filenames as files
from tb_plugin.readers.ascend.about import MOST_BYTES, metadata_of, settings_in
from tb_plugin.readers.ascend.communication import MOST_BYTES as MOST_DOCUMENT
from tb_plugin.readers.ascend.communication import Job, document_in, job_of, kernel_steps
from tb_plugin.readers.ascend.comparing import Said, compared, figures_of
from tb_plugin.readers.ascend.csv_table import CsvTable, read_table
from tb_plugin.readers.ascend.database import Content, Database, analysed, content_of, opened
from tb_plugin.readers.ascend.filenames import READER_ID, by_kind, candidates, kind_of, rank_in
from tb_plugin.readers.ascend.kernels import DURATION, NAME, START, kernels_of, uses_of_tasks
from tb_plugin.readers.ascend.lanes import Lanes, named_lanes
from tb_plugin.readers.ascend.memory import devices_in, memory_in
from tb_plugin.readers.ascend.merging import no_rows_at_all, with_kernels
from tb_plugin.readers.ascend.naming import NamedRows, NamesOf, devices_of
from tb_plugin.readers.ascend.need import DATABASES, DOCUMENTS, needed
from tb_plugin.readers.ascend.one_file import OneFile, Steady
from tb_plugin.readers.ascend.operators import operators_of
from tb_plugin.readers.ascend.stated import stated_table
from tb_plugin.readers.ascend.timeline import Timeline, in_percent
from tb_plugin.readers.ascend.trace_view import Events
from tb_plugin.readers.ascend.windows import Rows, surveyed
from tb_plugin.readers.base import Candidate, FileSize, ListedFile, Progress, ReadOptions, ReadState, Source
from tb_plugin.readers.chrome.need import room_bytes
from tb_plugin.readers.chrome.passing import Tally, passed, report_of
from tb_plugin.readers.chrome.rules.events import decode
from tb_plugin.readers.issues import IssueLog
from tb_plugin.readers.meanings import call_names, class_names, name_flags, own_communication
from tb_plugin.readers.stream import TextStream
from tb_plugin.recorders import TORCH_NPU
from tb_plugin.trace.report import Issue, ReadReport
from tb_plugin.trace.strings import StringTable
from tb_plugin.trace.table import CounterEvents, RawTrace
from tb_plugin.trace.window import Survey

_PARSE_AGAIN = "Parse it again: torch_npu.profiler.profiler.analyse()."
_COMMUNICATION_ALONE = (
    "no file of the profile has rows, so that calls of communication stand for what the device did: of computing nothing is "
    "known but what tables state"
)
_OPERATORS = "cpu_op"
COMPARED = "text_and_database"
"""Key of the metadata that says how many numbers text files and databases have in common."""
_INCOMPLETE = frozenset({"file_lost", "database_cut", "database_damaged"})
_LOST = (UserError, OSError)
"""What ends the read of one file and of no other."""
_UNSAVED = (
    "what the database holds in this file alone is not shown: it was copied while somebody wrote it. "
    "Close what has it open (or run PRAGMA wal_checkpoint on it) and copy it again."
)
_NEEDED = {
    files.KERNELS: (NAME, START, DURATION),
    files.BLOCKS: ("Size(KB)", "Allocation Time(us)", "Release Time(us)"),
    files.MEMORY: ("Component", "Timestamp(us)"),
    files.OPERATORS: ("Name",),
}
"""Columns without which nothing can be said."""
_IN_TABLES = (files.MODULES, *files.STATED)


class AscendReader:
    """Reads what torch_npu and MindSpore leave in ``*_ascend_pt`` and ``*_ascend_ms`` folders."""

    id = READER_ID
    title = "Ascend profile"
    raw = RawTrace
    endings: tuple[str, ...] = ("_ascend_pt/", "_ascend_ms/", f"{files.OUTPUT}/")

    def find(self, listing: Sequence[ListedFile]) -> list[Candidate]:
        """Returns the profiles among the listed files, judged by name alone."""
        return candidates(listing)

    def sniff(self, head: bytes) -> bool:
        """Returns False: a folder is known by the names of its files, and none of these alone is a profile."""
        return False

    def need_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        """Returns the memory that reading files of these sizes takes at its peak."""
        return needed(sizes)

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawTrace:
        """Returns the profile. Raises UnreadableTrace where no file can be read, and what ``progress`` raises."""
        return _Reading(source, options, progress).read()

    def survey(self, source: Source, options: ReadOptions, progress: Progress) -> Survey:
        """Returns what is when in the trace view. Raises OnlyWhole where there is none, and what ``read`` raises."""
        return surveyed(source, options, progress)

    def room_bytes(self, memory_bytes: int) -> int:
        """Returns how many bytes of text a read can keep in so much memory."""
        return room_bytes(memory_bytes)


class _Reading:
    """One read in progress."""

    def __init__(self, source: Source, options: ReadOptions, progress: Progress) -> None:
        self._source = source = Steady(source)
        self._options = options
        self._progress = progress
        self._names = by_kind(source.names())
        self._whole = max(1, sum(source.size(name) for name in source.names()))
        self._done = 0
        self._issues: list[Issue] = []
        self._bytes = [0, 0]
        self._logs: list[tuple[str, IssueLog]] = []
        self._read_any = False
        self._tried: frozenset[str] = frozenset()
        self._kept: dict[str, CsvTable] = {}
        self._documents: dict[str, dict[str, Any]] = {}
        self._state = ReadState(0.0, 0, {})
        self._passed_over = set(source.names())
        self._rows = Rows(options.window) if options.window is not None else None

    def read(self) -> RawTrace:
        """Returns the profile."""
        for other in self._source.names():
            if (kind := kind_of(other)) and (name := self._names[kind]) != other:
                self._note(other, "second_file", f"the profile is read from {_last(name)}; this one is left out")
        for name in (name for name in self._source.names() if name.endswith(files.LOG) and self._source.size(name)):
            self._note(name, "unsaved_changes", _UNSAVED)
        events = Events(IssueLog(), self._options.window)
        report, columns, counters = self._trace_view(events)
        interner, names = events.collected.interner, NamesOf.of(events.collected.names)
        known = len(columns["start_ns"]) + len(counters.time_ns)
        self._read_documents()
        found = self._databases(events, columns, report is not None)
        metadata, job = self._job(found)
        if found.columns is not None:
            columns, counters, names = found.columns, found.counters, NamesOf.of(found)
        is_drawn = known > 0 or found.columns is not None
        log = IssueLog()
        collective = np.zeros(0, np.int32)
        use, of_use = np.empty(0, np.uint8), np.empty(0, np.int32)
        kernels, placed = found.kernels, found.placed
        if (table := self._table(files.KERNELS)) is not None:
            kernels, placed = kernels_of(table, interner, log), None
            if self._rows is not None:
                kernels, placed = self._rows.placed(kernels, columns)
        steps = found.steps
        if not is_drawn:
            steps = steps or (kernel_steps(kernels, interner.texts) if kernels is not None else job.steps())
            if kernels is None and (kernels := job.kernels(interner)) is not None:
                told = files.COMMUNICATION if files.COMMUNICATION in self._names else files.ANALYSED
                self._note(self._names.get(told, told), "communication_alone", _COMMUNICATION_ALONE)
        if kernels is not None:
            columns, row = with_kernels(columns, kernels, interner, placed)
            collective, of_use, use = row[kernels.is_collective], row, kernels.uses_matrix_unit
            self._told(files.KERNELS, log)
        tables = {
            kind: table
            for kind in (files.BLOCKS, files.MEMORY, *_IN_TABLES)
            if (table := self._table_or(kind, found)) is not None
        }
        memory, logs = memory_in(tables, interner)
        for kind, of_memory in logs.items():
            self._told(kind, of_memory)
        stated = [*job.stated(), *(stated_table(kind, tables[kind]) for kind in _IN_TABLES if kind in tables)]
        if not is_drawn and (table := self._table(files.OPERATORS)) is not None:
            stated.append(operators_of(files.OPERATORS, table))
        if not self._read_any:
            raise UnreadableTrace("No file of the profile could be read.", do=_PARSE_AGAIN)
        columns["collectives"] = job.collectives(columns, interner)
        rows = NamedRows(columns["name"], columns["kind"])
        classes = class_names(rows, interner, self._options.class_rules, log)
        flags = name_flags(rows, interner.texts, collective, own_communication(rows, classes))
        flags["uses_matrix_unit"][of_use] = use
        flags["uses_matrix_unit"] = uses_of_tasks(columns, flags["uses_matrix_unit"], interner)
        lanes = named_lanes(columns["device"], columns["pid"], columns["tid"], interner.texts)
        devices, place = devices_of(columns.pop("device"), devices_in(memory))
        self._pass_over_the_rest()
        for kind, of_table in self._logs:
            self._told(kind, of_table)
        summary = self._report(report, len(columns["start_ns"]) + len(counters.time_ns) - known)
        self._progress(ReadState(1.0, summary.events_seen, {"other": summary.events_seen}))
        return RawTrace(
            **{**columns, "device": place},
            **flags,
            **memory,
            strings=StringTable(interner.texts),
            devices=describe_all(
                devices, {each: found.devices.get(each, {}) for each in devices}, (), frozenset({"ascend"})
            ),
            report=summary,
            counters=counters,
            process_names=names.processes,
            thread_names={**names.threads, **lanes},
            process_order=names.process_order,
            thread_order=names.thread_order,
            metadata=metadata,
            base_time_ns=0,
            is_external_id_sure=True,
            recorder=TORCH_NPU,
            calls=call_names(rows, interner.texts),
            classes=classes,
            stated=tuple(stated),
            stated_steps=steps,
            window=self._options.window,
        )

    def _trace_view(self, events: Events) -> tuple[ReadReport | None, dict[str, Any], CounterEvents]:
        name = self._names.get(files.TRACE)
        if name is None:
            return None, no_rows_at_all(), CounterEvents()

        def tell(state: ReadState) -> None:
            fraction = state.fraction * self._source.size(name) / self._whole
            self._state = replace(state, fraction=fraction)
            self._progress(self._state)

        self._passed_over.discard(name)
        try:
            with passed(OneFile(self._source, name), self._options, events, decode, tell) as (document, stream):
                collected = events.collected
                columns = collected.finish().raw(None)
                lanes = Lanes(collected.interner.texts, collected.names.processes(), collected.names.threads())
                made = Timeline(columns, lanes, collected.interner).raw()
                if collected.interner.replaced:
                    events.log.add("bad_utf8", "repaired", count=collected.interner.replaced)
                outside = 0 if collected.cut is None else collected.cut.outside
                tally = Tally(collected.seen, len(made["start_ns"]) + collected.counters.count, {}, outside)
                report = report_of(READER_ID, document, stream, events.log, tally)
                counters = in_percent(collected.counters.take(), collected.interner.texts)
        except _LOST as error:
            self._lost(name, error)
            events.restart()
            return None, no_rows_at_all(), CounterEvents()
        self._read_any = True
        self._done += self._source.size(name)
        self._issues += [replace(issue, file=_last(name)) for issue in report.issues]
        return report, made, counters

    def _table(self, kind: str) -> CsvTable | None:
        """The table of a file; None where it is not there, or cannot be read, which is told."""
        if kind in self._tried:
            return self._kept.pop(kind, None)
        name, log = self._names.get(kind), IssueLog()
        if name is None:
            return None
        keep = self._rows.keep(kind) if self._rows is not None else None
        try:
            table = read_table(self._pieces(name, log), log, keep)
        except _LOST as error:
            self._lost(name, error)
            return None
        self._logs.append((kind, log))  # cells that are no numbers show when somebody asks for numbers
        if table is None:
            self._note(name, "no_heading", "the file has no heading, so that nobody knows its columns")
            return None
        lacking = [title for title in _NEEDED.get(kind, ()) if not table.has(title)]
        if lacking:
            text = f"the file has no column {' and no column '.join(lacking)}: nothing of it is shown"
            self._note(self._names[kind], "missing_columns", text)
            return None
        self._read_any = True
        return table

    def _pieces(self, name: str, log: IssueLog, most: int = 0) -> Iterator[bytes]:
        """The text of a file; ``most`` bounds it, 0 = all. Raises UserError where it cannot be read."""
        self._passed_over.discard(name)
        with self._source.open(name) as raw:
            stream = TextStream(raw, self._source.size(name), lambda fraction: None, log)
            while (not most or stream.text_bytes <= most) and (part := stream.read(1 << 20)):
                yield part
        self._bytes[0] += stream.file_bytes
        self._bytes[1] += stream.text_bytes
        self._done += self._source.size(name)
        self._progress(replace(self._state, fraction=min(1.0, self._done / self._whole)))

    def _content(self, kind: str, most: int) -> bytes | None:
        """The bytes of a small file, None where it is not there or cannot be read."""
        name = self._names.get(kind)
        try:
            return None if name is None else b"".join(self._pieces(name, IssueLog(), most))
        except _LOST as error:
            self._lost(str(name), error)
            return None

    def _table_or(self, kind: str, found: Content) -> CsvTable | None:
        """The table of a file, else what a database has of it."""
        table = self._table(kind)
        return found.tables.get(kind) if table is None else table

    def _databases(self, events: Events, columns: Mapping[str, Any], is_drawn: bool) -> Content:
        """What the databases have beside what the other files say. ``is_drawn``: a trace view gave ``columns``."""
        interner = events.collected.interner
        if not DATABASES & set(self._names):
            return Content()
        if self._options.window is not None:
            for name in (name for kind, name in self._names.items() if kind in DATABASES):
                self._note(name, "database_left_out", "a window is read from the text files; the database was left out")
            return Content()
        # What a file really says is known when it is read.
        asked = (files.KERNELS, files.BLOCKS, files.MEMORY, files.STEPS, *_IN_TABLES)
        tables = {kind: self._table(kind) for kind in asked}
        self._tried = frozenset(tables)
        self._kept = {kind: table for kind, table in tables.items() if table is not None}
        texts = frozenset(self._kept) | ({files.TRACE} if is_drawn else set())
        texts |= set(self._documents)
        rows = self._database("db", lambda database: content_of(database, interner, texts))
        more = self._database(files.ANALYSED, lambda database: analysed(database, texts))
        figures = figures_of(self._kept)
        if is_drawn:
            operators = int(np.count_nonzero(columns["category"] == interner.text(_OPERATORS)))
            figures["calls of operators"] = Said(operators, 0)
        alike = 0
        for kind, content in (("db", rows), (files.ANALYSED, more)):
            same, differences = compared(figures, content.figures)
            alike += same
            for text in differences:
                self._note(
                    self._names[kind], "files_differ", f"the text counts where it and the database differ: {text}"
                )
        about = {**rows.about, COMPARED: f"{alike} numbers agree"} if alike else rows.about
        return replace(rows, tables={**more.tables, **rows.tables}, about=about)

    def _database(self, kind: str, of: Callable[[Database], Content | None]) -> Content:
        name = self._names.get(kind)
        if name is None:
            return Content()
        log, size = IssueLog(), self._source.size(name)
        self._passed_over.discard(name)

        def tell(fraction: float) -> None:
            done = self._done + size * fraction
            self._progress(replace(self._state, fraction=min(1.0, done / self._whole)))

        try:
            with opened(self._source, name, log, tell) as database:
                content = of(database)
        except _LOST as error:
            self._lost(name, error)
            content = None
        else:
            if content is None:
                self._note(name, "no_tables", "the database has none of the tables of a profile. Export it again.")
        self._told(kind, log)
        self._bytes[0] += size
        self._bytes[1] += size
        self._done += size
        self._read_any = self._read_any or content is not None
        return content or Content()

    def _read_documents(self) -> None:
        """Reads what is said of communication: a database is asked only for what is not there."""
        for kind in DOCUMENTS:
            log = IssueLog()
            content = self._content(kind, MOST_DOCUMENT)
            if content is not None and (document := document_in(content, log)) is not None:
                self._documents[kind] = document
                self._read_any = True
            self._logs.append((kind, log))

    def _job(self, database: Content) -> tuple[dict[str, Any], Job]:
        """What the profile says of itself and of its job."""
        metadata, groups = self._metadata(database)
        rank = metadata.get("distributedInfo", {}).get("rank")
        steps = self._table_or(files.STEPS, database)
        logs = (IssueLog(), IssueLog(), IssueLog())
        calls, links = (self._documents.pop(kind, None) for kind in DOCUMENTS)
        job = job_of(rank, groups, steps, (calls, links), database.tables, logs)
        for kind, document, log in zip(
            (*DOCUMENTS, files.STEPS), (calls, links, files.STEPS in self._names), logs, strict=True
        ):
            self._logs.append((kind if document else files.ANALYSED, log))
        return metadata, job

    def _metadata(self, database: Content) -> tuple[dict[str, Any], Any]:
        """What the profile says of itself, and the groups of ranks that it lists."""
        found = []
        for kind in ("info", files.ABOUT):
            content = self._content(kind, MOST_BYTES)
            try:
                found.append(settings_in(content) if content is not None else {})
            except ValueError as error:
                self._note(self._names[kind], "bad_settings", f"the settings cannot be read: {error}")
                found.append({})
        ranks = (rank_in(name) for name in self._source.names())
        rank = next((rank for rank in ranks if rank is not None), database.rank)
        about = {**database.about, **found[1]}
        return metadata_of(found[0], about, rank), about.get("parallel_group_info")

    def _pass_over_the_rest(self) -> None:
        """Counts files of which nothing was needed, as the calls of operators beside a trace view."""
        size = sum(self._source.size(name) for name in self._passed_over)
        self._bytes[0] += size
        self._bytes[1] += size

    def _told(self, kind: str, log: IssueLog) -> None:
        name = self._names.get(kind, kind)
        self._issues += [replace(issue, file=_last(name)) for issue in log.issues()]
        log.entries.clear()

    def _lost(self, name: str, error: UserError | OSError) -> None:
        why = error.what if isinstance(error, UserError) else error.strerror or str(error)
        self._note(name, "file_lost", f"the file could not be read: {why}")

    def _note(self, name: str, code: str, text: str) -> None:
        self._issues.append(Issue(code, "note", text, 1, file=_last(name)))

    def _report(self, trace: ReadReport | None, more: int) -> ReadReport:
        """The report about all files; ``more`` rows are drawn beside those of the trace view."""
        report = trace or ReadReport(READER_ID, 0, 0)
        dropped = sum(issue.count for issue in self._issues if issue.outcome == "dropped")
        return replace(
            report,
            file_bytes=report.file_bytes + self._bytes[0],
            text_bytes=report.text_bytes + self._bytes[1],
            events_seen=report.events_seen + more + dropped - report.events_dropped,
            events_kept=report.events_kept + more,
            events_dropped=dropped,
            complete=report.complete and not any(issue.code in _INCOMPLETE for issue in self._issues),
            issues=tuple(self._issues),
        )


def _last(name: str) -> str:
    return PurePosixPath(name).name
