"""Reader for Ascend profiles: a folder of many files.

Each file may be missing, truncated or unreadable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.devices import describe_all
from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats._chrome.generic.events import decode
from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats._chrome.memory_estimate import room_bytes
from tb_plugin.formats._chrome.parse import Tally, report_of, single_pass
from tb_plugin.formats.ascend import PROFILE
from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.communication.document import document_in
from tb_plugin.formats.ascend.communication.job import Job, job_of
from tb_plugin.formats.ascend.communication.schema import stored_tables
from tb_plugin.formats.ascend.communication.steps import kernel_steps
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.formats.ascend.database.content import Content, content_of
from tb_plugin.formats.ascend.filenames import READER_ID, rank_in
from tb_plugin.formats.ascend.kernel_details import Kernels, core_by_task, kernels_of, uses_of_tasks
from tb_plugin.formats.ascend.lanes import Lanes, device_lane_names
from tb_plugin.formats.ascend.memory import devices_in, memory_in
from tb_plugin.formats.ascend.memory_estimate import DATABASES, DOCUMENTS, MOST_DOCUMENT_BYTES, estimated_peak_bytes
from tb_plugin.formats.ascend.merge import no_rows_at_all, with_kernels
from tb_plugin.formats.ascend.one_file import OneFile
from tb_plugin.formats.ascend.open_files import LOST, ProfileFiles
from tb_plugin.formats.ascend.operators import operators_of
from tb_plugin.formats.ascend.profile_info import MOST_BYTES, metadata_of, settings_in
from tb_plugin.formats.ascend.reported_tables import reported_table
from tb_plugin.formats.ascend.timeline import in_percent, view_columns
from tb_plugin.formats.ascend.trace_view import Events
from tb_plugin.formats.ascend.track_names import NameRows, NamesOf, devices_of
from tb_plugin.formats.ascend.windows import survey
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, Source
from tb_plugin.formats.classify import call_names, class_names, name_flags, own_communication
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.job_tables import STEP_TIMES
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import CounterEvents, RawTrace
from tb_plugin.model.trace.window import Survey
from tb_plugin.profilers import TORCH_NPU

_PARSE_AGAIN = "Parse the profile again: torch_npu.profiler.profiler.analyse()."
_ONLY_COMMUNICATION = (
    "the profile contains no events, so the device shows only communication calls. Compute times are "
    "only in the vendor tables"
)
_VENDOR_TABLES = (files.MODULES, *files.VENDOR_TABLES)


class AscendReader(DeclaredReader, entry=PROFILE):
    """Reads the ``*_ascend_pt`` and ``*_ascend_ms`` folders of torch_npu and MindSpore."""

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return estimated_peak_bytes(sizes)

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> RawTrace:
        """Reads the profile. Raises UnreadableTrace if no file is readable, and any error that ``progress`` raises."""
        return _Reading(source, options, progress).read()

    def survey(self, source: Source, options: ReadOptions, progress: Progress) -> Survey:
        """Returns time bounds, steps and device work of the trace view, without loading it.

        Raises WindowUnsupported if there is no trace view, and any error that ``read`` raises.
        """
        return survey(source, options, progress)

    def room_bytes(self, memory_bytes: int) -> int:
        return room_bytes(memory_bytes)


class _Reading:
    def __init__(self, source: Source, options: ReadOptions, progress: Progress) -> None:
        self._options = options
        self._opened = ProfileFiles(source, progress, options.window)
        self._documents: dict[str, dict[str, Any]] = {}

    def read(self) -> RawTrace:
        events = Events(IssueLog(), self._options.window)
        report, columns, counters = self._trace_view(events)
        interner, names = events.collected.interner, NamesOf.of(events.collected.names)
        known = len(columns["start_ns"]) + len(counters.time_ns)
        self._read_documents()
        found = self._databases(interner, report is not None)
        metadata, job = self._job(found)
        if found.columns is not None:
            columns, counters, names = found.columns, found.counters, NamesOf.of(found)
        is_drawn = known > 0 or found.columns is not None
        collective = np.zeros(0, np.int32)
        use, use_rows = np.empty(0, np.uint8), np.empty(0, np.int32)
        kernels, placed = self._kernels(found, columns, interner)
        steps = found.steps
        if not is_drawn:
            steps = steps or (kernel_steps(kernels, interner.texts) if kernels is not None else job.steps())
            if kernels is None and (kernels := job.kernels(interner)) is not None:
                source_kind = files.COMMUNICATION if files.COMMUNICATION in self._opened.names else files.ANALYSED
                self._opened.note(
                    self._opened.names.get(source_kind, source_kind), "communication_alone", _ONLY_COMMUNICATION
                )
        if kernels is not None:
            columns, row = with_kernels(columns, kernels, interner, placed)
            collective, use_rows, use = row[kernels.is_collective], row, kernels.uses_matrix_unit
        tables = {
            kind: table
            for kind in (files.BLOCKS, files.MEMORY, *_VENDOR_TABLES)
            if (table := self._table_or(kind, found)) is not None
        }
        memory, logs = memory_in(tables, interner)
        for kind, memory_log in logs.items():
            self._opened.tell(kind, memory_log)
        stated = [*job.reported(), *(reported_table(kind, tables[kind]) for kind in _VENDOR_TABLES if kind in tables)]
        if not is_drawn and (table := self._opened.table(files.OPERATORS)) is not None:
            stated.append(operators_of(files.OPERATORS, table))
        if not self._opened.is_any_read:
            raise UnreadableTrace("None of the profile's files could be read.", do=_PARSE_AGAIN)
        columns["collectives"] = job.collectives(columns, interner)
        rows, log = NameRows(columns["name"], columns["kind"]), IssueLog()
        classes = class_names(rows, interner, self._options.class_rules, log)
        self._opened.tell(None, log)
        flags = name_flags(rows, interner.texts, collective, own_communication(rows, classes))
        flags["uses_matrix_unit"][use_rows] = use
        if (core := core_by_task(columns, interner)) is not None:
            columns["others"] = (*columns["others"], core)
            flags["uses_matrix_unit"] = uses_of_tasks(core, flags["uses_matrix_unit"], interner)
        lanes = device_lane_names(columns["device"], columns["pid"], columns["tid"], interner.texts)
        devices, place = devices_of(columns.pop("device"), devices_in(memory))
        summary = self._opened.report(report, len(columns["start_ns"]) + len(counters.time_ns) - known)
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
            reported_tables=tuple(stated),
            reported_steps=steps,
            window=self._options.window,
        )

    def _trace_view(self, events: Events) -> tuple[ReadReport | None, dict[str, Any], CounterEvents]:
        name = self._opened.names.get(files.TRACE)
        if name is None:
            return None, no_rows_at_all(), CounterEvents()

        tell = self._opened.begin(name)
        try:
            with single_pass(OneFile(self._opened.source, name), self._options, events, decode, tell) as (
                document,
                stream,
            ):
                collected = events.collected
                columns = collected.finish().raw(None)
                lanes = Lanes(collected.interner.texts, collected.names.processes(), collected.names.threads())
                made = view_columns(columns, lanes, collected.interner)
                collected.interner.tell(events.log)
                outside = 0 if collected.cut is None else collected.cut.outside
                tally = Tally(collected.event_count, len(made["start_ns"]) + collected.counters.count, {}, outside)
                report = report_of(READER_ID, document, stream, events.log, tally)
                counters = in_percent(collected.counters.take(), collected.interner.texts)
        except LOST as error:
            self._opened.lost(name, error)
            events.restart()
            return None, no_rows_at_all(), CounterEvents()
        self._opened.end(name, report)
        return report, made, counters

    def _kernels(
        self, found: Content, columns: Mapping[str, Any], interner: Interner
    ) -> tuple[Kernels | None, npt.NDArray[np.int32] | None]:
        """Returns the kernels of the table, or of a database if there is no table.

        Also returns their rows, or None if unknown.
        """
        table, log = self._opened.table(files.KERNELS), IssueLog()
        if table is None:
            return found.kernels, found.placed
        kernels = kernels_of(table, interner, log)
        self._opened.tell(files.KERNELS, log)
        return (kernels, None) if self._opened.rows is None else self._opened.rows.placed(kernels, columns)

    def _table_or(self, kind: str, found: Content) -> CsvTable | None:
        table = self._opened.table(kind)
        return found.tables.get(kind) if table is None else table

    def _databases(self, interner: Interner, is_drawn: bool) -> Content:
        """Returns the data that only the databases contain. ``is_drawn``: whether the rows come from a trace view."""
        if not DATABASES & set(self._opened.names):
            return Content()
        if self._options.window is not None:
            for name in (name for kind, name in self._opened.names.items() if kind in DATABASES):
                self._opened.note(
                    name,
                    "database_left_out",
                    "the database was skipped, because time windows are read from the text files",
                )
            return Content()
        # The content of a file is known only after reading it.
        kinds = (files.KERNELS, files.BLOCKS, files.MEMORY, files.STEPS, *_VENDOR_TABLES)
        tables = {kind: table for kind in kinds if (table := self._opened.keep(kind)) is not None}
        texts = frozenset(tables) | ({files.TRACE} if is_drawn else set())
        texts |= set(self._documents)
        rows = self._opened.database("db", lambda database: content_of(database, interner, texts)) or Content()
        more = self._opened.database(files.ANALYSED, lambda database: stored_tables(database, texts)) or {}
        return replace(rows, tables={**more, **rows.tables})

    def _read_documents(self) -> None:
        for kind in DOCUMENTS:
            log = IssueLog()
            content = self._opened.content(kind, MOST_DOCUMENT_BYTES)
            if content is not None and (document := document_in(content, log, MOST_DOCUMENT_BYTES)) is not None:
                self._documents[kind] = document
                self._opened.is_any_read = True
            self._opened.add_log(kind, log)

    def _job(self, database: Content) -> tuple[dict[str, Any], Job]:
        metadata, groups = self._metadata(database)
        rank = metadata.get("distributedInfo", {}).get("rank")
        tables = dict(database.tables)
        if (steps := self._opened.table(files.STEPS)) is not None:
            tables[STEP_TIMES] = steps
        logs = (IssueLog(), IssueLog(), IssueLog())
        calls, links = (self._documents.pop(kind, None) for kind in DOCUMENTS)
        job = job_of(rank, groups, (calls, links), tables, logs)
        for kind, document, log in zip(
            (*DOCUMENTS, files.STEPS), (calls, links, files.STEPS in self._opened.names), logs, strict=True
        ):
            self._opened.add_log(kind if document else files.ANALYSED, log)
        return metadata, job

    def _metadata(self, database: Content) -> tuple[dict[str, Any], Any]:
        found = []
        for kind in ("info", files.PROFILER_METADATA):
            log = IssueLog()
            content = self._opened.content(kind, MOST_BYTES)
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
