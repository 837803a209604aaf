"""Reader for Ascend profiles, of which each file may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.devices import describe_all
from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._chrome.generic.events import decode
from tb_plugin.formats._chrome.generic.rows import EventPass
from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats._chrome.memory_estimate import room_bytes
from tb_plugin.formats._chrome.parse import Tally, report_of, single_pass
from tb_plugin.formats.ascend import PROFILE
from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.communication.job import Job, job_of
from tb_plugin.formats.ascend.communication.schema import stored_tables
from tb_plugin.formats.ascend.communication.steps import kernel_steps
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.formats.ascend.database.content import Content, content_of
from tb_plugin.formats.ascend.filenames import READER_ID, rank_in
from tb_plugin.formats.ascend.kernel_details import (
    Kernels,
    core_by_task,
    kernels_of,
    no_rows_at_all,
    uses_of_tasks,
    with_kernels,
)
from tb_plugin.formats.ascend.lanes import Lanes, device_lane_names
from tb_plugin.formats.ascend.memory import devices_in, memory_in
from tb_plugin.formats.ascend.open_files import LOST, ProfileFiles, ProfileSource
from tb_plugin.formats.ascend.profile_info import MOST_BYTES, metadata_of, settings_in
from tb_plugin.formats.ascend.timeline import in_percent, view_columns
from tb_plugin.formats.ascend.trace_view import (
    DATABASES,
    DOCUMENTS,
    MOST_DOCUMENT_BYTES,
    estimated_peak_bytes,
    events_pass,
    survey,
)
from tb_plugin.formats.ascend.vendor_tables import operator_calls, reported_table
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, Source
from tb_plugin.formats.classify import call_names, class_names, name_flags, own_communication
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Int16, Int32, UInt8
from tb_plugin.model.trace.job_tables import STEP_TIMES
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.model.trace.window import Survey
from tb_plugin.profilers import TORCH_NPU

_PARSE_AGAIN = "Parse the profile again: torch_npu.profiler.profiler.analyse()."
_ONLY_COMMUNICATION = (
    "the profile contains no events, so the device shows only communication calls. Compute times are "
    "only in the vendor tables"
)
_VENDOR_TABLES = (files.MODULES, *files.VENDOR_TABLES)
_TABLES = (files.BLOCKS, files.MEMORY, *_VENDOR_TABLES)


class AscendReader(DeclaredReader, entry=PROFILE):
    """Reads the ``*_ascend_pt`` and ``*_ascend_ms`` folders of torch_npu and MindSpore."""

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return estimated_peak_bytes(sizes)

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawTrace:
        """Reads the profile. Raises UnreadableTrace if no file is readable, and any error that ``progress`` raises."""
        return _Reading(source, options, progress).read()

    def survey(self, source: Source, options: ReadOptions, progress: Progress) -> Survey:
        """Returns the survey of the trace view. Raises WindowUnsupported if it is missing, and errors of ``read``."""
        return survey(source, options, progress)

    def room_bytes(self, memory_bytes: int) -> int:
        return room_bytes(memory_bytes)


class _Names(msgspec.Struct, frozen=True, eq=False):
    """Names and kinds of rows."""

    name: Int32
    kind: UInt8


class _Reading:
    def __init__(self, source: Source, options: ReadOptions, progress: Progress) -> None:
        self._options = options
        self._opened = ProfileFiles(source, progress, options.window)
        self._documents: dict[str, tuple[dict[str, Any] | None, IssueLog]] = {}

    def read(self) -> RawTrace:
        events = events_pass(self._options.window)
        report, view = self._trace_view(events)
        interner, known = events.collected.interner, len(view.counters.time_ns)
        known += 0 if view.columns is None else len(view.columns["start_ns"])
        documents = {kind: self._opened.document(kind, MOST_DOCUMENT_BYTES) for kind in DOCUMENTS}
        self._documents = {kind: found for kind, found in documents.items() if found[0] is not None}
        stored = self._databases(interner, report is not None)
        metadata, job = self._job(stored)
        rows = view if stored.columns is None else stored
        columns = rows.columns or no_rows_at_all()
        is_drawn = known > 0 or stored.columns is not None
        kernels, placed = self._kernels(stored, columns, interner)
        steps = stored.steps
        if not is_drawn:
            steps = steps or (kernel_steps(kernels, interner.texts) if kernels is not None else job.steps())
            if kernels is None and (kernels := job.kernels(interner)) is not None:
                kind = files.COMMUNICATION if files.COMMUNICATION in self._opened.names else files.ANALYSED
                self._opened.note(self._opened.names.get(kind, kind), "communication_alone", _ONLY_COMMUNICATION)
        tables = {kind: table for kind in _TABLES if (table := self._table_or(kind, stored)) is not None}
        memory, logs = memory_in(tables, interner)
        for kind, log in logs.items():
            self._opened.tell(kind, log)
        stated = [*job.reported(), *(reported_table(kind, tables[kind]) for kind in _VENDOR_TABLES if kind in tables)]
        if not is_drawn and (table := self._opened.table(files.OPERATORS)) is not None:
            stated.append(operator_calls(files.OPERATORS, table))
        if not self._opened.is_any_read:
            raise UnreadableTrace("None of the profile's files could be read.", do=_PARSE_AGAIN)
        kernel_rows = np.empty(0, np.int32)
        if kernels is not None:
            columns, kernel_rows = with_kernels(columns, kernels, interner, placed)
        columns["collectives"] = job.collectives(columns, interner)
        names, log = _Names(columns["name"], columns["kind"]), IssueLog()
        classes = class_names(names, interner, self._options.class_rules, log)
        self._opened.tell(None, log)
        collective = kernel_rows if kernels is None else kernel_rows[kernels.is_collective]
        flags = name_flags(names, interner.texts, collective, own_communication(names, classes))
        if kernels is not None:
            flags["uses_matrix_unit"][kernel_rows] = kernels.uses_matrix_unit
        if (core := core_by_task(columns, interner)) is not None:
            columns["others"] = (*columns["others"], core)
            flags["uses_matrix_unit"] = uses_of_tasks(core, flags["uses_matrix_unit"], interner)
        lanes = device_lane_names(columns["device"], columns["pid"], columns["tid"], interner.texts)
        devices, place = _devices(columns.pop("device"), devices_in(memory))
        summary = self._opened.report(report, len(columns["start_ns"]) + len(rows.counters.time_ns) - known)
        return RawTrace(
            **{**columns, "device": place},
            **flags,
            **memory,
            strings=StringTable(interner.texts),
            devices=describe_all(
                devices, {each: stored.devices.get(each, {}) for each in devices}, (), frozenset({"ascend"})
            ),
            report=summary,
            counters=rows.counters,
            process_names=rows.process_names,
            thread_names={**rows.thread_names, **lanes},
            process_order=rows.process_order,
            thread_order=rows.thread_order,
            metadata=metadata,
            base_time_ns=0,
            is_external_id_sure=True,
            recorder=TORCH_NPU,
            calls=call_names(names, interner.texts),
            classes=classes,
            reported_tables=tuple(stated),
            reported_steps=steps,
            window=self._options.window,
        )

    def _trace_view(self, events: EventPass) -> tuple[ReadReport | None, Content]:
        name = self._opened.names.get(files.TRACE)
        if name is None:
            return None, Content()
        source, tell = ProfileSource(self._opened.source, name), self._opened.begin(name)
        try:
            with single_pass(source, self._options, events, decode, tell) as (document, stream):
                collected = events.collected
                columns, interner = collected.finish().raw(None), collected.interner
                processes, threads = collected.names.processes(), collected.names.threads()
                lanes = Lanes(interner.texts, processes, threads)
                made = view_columns(columns, lanes, interner)
                interner.tell(events.log)
                outside = 0 if collected.cut is None else collected.cut.outside
                tally = Tally(collected.event_count, len(made["start_ns"]) + collected.counters.count, {}, outside)
                report = report_of(READER_ID, document, stream, events.log, tally)
                counters = in_percent(collected.counters.take(), interner.texts)
        except LOST as error:
            self._opened.lost(name, error)
            events.restart()
            return None, Content()
        self._opened.end(name, report)
        names = collected.names
        return report, Content(made, counters, processes, threads, names.process_order, lanes.order(names.thread_order))

    def _kernels(
        self, stored: Content, columns: Mapping[str, Any], interner: Interner
    ) -> tuple[Kernels | None, Int32 | None]:
        """Returns the kernels of the table or else of a database, and their rows, or None if unknown."""
        table, log = self._opened.table(files.KERNELS), IssueLog()
        if table is None:
            return stored.kernels, stored.placed
        kernels = kernels_of(table, interner, log)
        self._opened.tell(files.KERNELS, log)
        return (kernels, None) if self._opened.rows is None else self._opened.rows.placed(kernels, columns)

    def _table_or(self, kind: str, stored: Content) -> CsvTable | None:
        table = self._opened.table(kind)
        return stored.tables.get(kind) if table is None else table

    def _databases(self, interner: Interner, is_drawn: bool) -> Content:
        """Returns the data that only the databases contain. ``is_drawn``: whether the rows come from a trace view."""
        names = {kind: name for kind, name in self._opened.names.items() if kind in DATABASES}
        if self._options.window is not None:
            for name in names.values():
                text = "the database was skipped, because time windows are read from the text files"
                self._opened.note(name, "database_left_out", text)
        if self._options.window is not None or not names:
            return Content()
        # The content of a file is known only after reading it.
        kinds = (files.KERNELS, files.STEPS, *_TABLES)
        texts = frozenset(kind for kind in kinds if self._opened.keep(kind) is not None)
        texts |= {*self._documents, *([files.TRACE] if is_drawn else [])}
        rows = self._opened.database("db", lambda database: content_of(database, interner, texts)) or Content()
        more = self._opened.database(files.ANALYSED, lambda database: stored_tables(database, texts)) or {}
        return replace(rows, tables={**more, **rows.tables})

    def _job(self, database: Content) -> tuple[dict[str, Any], Job]:
        metadata, groups = self._metadata(database)
        rank = metadata.get("distributedInfo", {}).get("rank")
        tables, steps_log = dict(database.tables), IssueLog()
        if (steps := self._opened.table(files.STEPS)) is not None:
            tables[STEP_TIMES] = steps
        self._opened.add_log(files.STEPS if files.STEPS in self._opened.names else files.ANALYSED, steps_log)
        found = [self._documents.pop(kind, (None, IssueLog())) for kind in DOCUMENTS]
        for document, log in found:
            if document is None:
                self._opened.add_log(files.ANALYSED, log)
        (calls, calls_log), (links, links_log) = found
        return metadata, job_of(rank, groups, (calls, links), tables, (calls_log, links_log, steps_log))

    def _metadata(self, database: Content) -> tuple[dict[str, Any], Any]:
        found = []
        for kind in ("info", files.PROFILER_METADATA):
            log = IssueLog()
            content = self._opened.content(kind, log, MOST_BYTES)
            try:
                found.append(settings_in(content, log) if content is not None else {})
            except ValueError as error:
                self._opened.note(self._opened.names[kind], "bad_settings", f"the settings cannot be read: {error}")
                found.append({})
            self._opened.add_log(kind, log)
        ranks = (rank_in(name) for name in self._opened.source.names())
        rank = next((rank for rank in ranks if rank is not None), database.rank)
        about = {**database.profile_info, **found[1]}
        return metadata_of(found[0], about, rank), about.get("parallel_group_info")


def _devices(number: Int32, others: Int32) -> tuple[list[str], Int16]:
    """Returns the devices of rows and of ``others``, sorted by number, and the index of the device of each row."""
    found = np.union1d(number[number != MISSING], others)
    of_rows = np.full(len(number), MISSING, np.int16)
    of_rows[number != MISSING] = np.searchsorted(found, number[number != MISSING])
    return [str(each) for each in found.tolist()], of_rows
