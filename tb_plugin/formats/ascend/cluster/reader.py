"""Reader for job analyses, of which each file may be missing."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.ascend import CLUSTER
from tb_plugin.formats.ascend.cluster import filenames as files
from tb_plugin.formats.ascend.cluster.documents import (
    call_entries,
    groups_in,
    groups_of,
    link_entries,
    ranks_of_groups,
    with_names,
)
from tb_plugin.formats.ascend.cluster.filenames import READER_ID, kind_of
from tb_plugin.formats.ascend.communication.calls import calls_in, calls_stored
from tb_plugin.formats.ascend.communication.links import link_table, links_in, links_stored
from tb_plugin.formats.ascend.communication.schema import stored_tables
from tb_plugin.formats.ascend.communication.steps import job_step_times
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.formats.ascend.open_files import OpenedFiles
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.cluster import Cluster
from tb_plugin.model.trace.job_tables import GROUPS, LINKS, SCHEMAS, STEP_TIMES
from tb_plugin.model.trace.report import ReadReport

PER_BYTE = 14  # peak memory per byte of text or of a database (measured at 25 MB: 6 for calls, 11 for links)
PACKED = 12  # bytes of text per stored byte of an archive
_AGAIN = "Run the analysis again: msprof-analyze cluster -d <profile folder> -m all."
_INCOMPLETE_CODES = frozenset({"file_lost", "truncated_tail", "database_cut", "database_damaged"})


class AscendClusterReader(DeclaredReader, entry=CLUSTER):
    """Reads the output of ``msprof-analyze cluster`` (formerly ``cluster_analysis.py``), which covers all ranks of a job."""

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return PER_BYTE * sum(size.text_bytes(PACKED) for size in sizes.values())

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> Cluster:
        """Reads the analysis. Raises UnreadableTrace if no file is readable, and any error that ``progress`` raises."""
        names = {kind: name for name in source.names() if (kind := kind_of(name))}
        opened = OpenedFiles(source, names, progress)
        made: dict[str, pa.Table] = {}
        about: dict[str, str] = {}
        if (stored := opened.database(files.DATABASE, _stored)) is not None:
            made, about = stored
        made |= {name: table for name, table in _texts(opened).items() if table.num_rows}
        made = {name: table for name, table in made.items() if table.num_rows}
        opened.tell_logs()
        if not opened.is_any_read:
            raise UnreadableTrace("None of the analysis files could be read.", do=_AGAIN)
        rows = sum(table.num_rows for table in made.values())
        dropped = sum(issue.count for issue in opened.issues if issue.outcome == "dropped")
        progress(ReadState(1.0, rows, {"other": rows}))
        report = ReadReport(
            READER_ID,
            opened.file_bytes,
            opened.text_bytes,
            events_in_file=rows + dropped,
            events_loaded=rows,
            events_dropped=dropped,
            complete=not any(issue.code in _INCOMPLETE_CODES for issue in opened.issues),
            issues=tuple(opened.issues),
            records="rows",
        )
        return Cluster(made, about, report)


def _texts(opened: OpenedFiles) -> dict[str, pa.Table]:
    made: dict[str, pa.Table] = {}
    if (table := opened.table(files.STEPS)) is not None:
        log = IssueLog()
        opened.add_log(files.STEPS, log)
        made[STEP_TIMES] = job_step_times(table, log)
    document, log = opened.document(files.GROUPS)
    groups = [] if document is None else groups_in(document, log)
    document, log = opened.document(files.MATRIX)
    if document is not None:
        made[LINKS] = link_table(links_in(link_entries(document, log), log), None, log)
    document, log = opened.document(files.COMMUNICATION)
    if document is not None:
        made |= calls_in(call_entries(document, log), log)
        groups = with_names(groups, ranks_of_groups(document))
    made[GROUPS] = pa.Table.from_pylist(groups, pa.schema(SCHEMAS[GROUPS]))
    return made


def _stored(database: Database) -> tuple[dict[str, pa.Table], dict[str, str]]:
    """Returns the tables of a database, and the metadata of its job."""
    tables, log = stored_tables(database) or {}, database.log
    made = calls_stored(tables, None, log)
    if STEP_TIMES in tables:
        made[STEP_TIMES] = job_step_times(tables[STEP_TIMES], log)
    if LINKS in tables:
        made[LINKS] = link_table(links_stored(tables[LINKS], None, log), None, log)
    groups = database.text_rows("CommunicationGroupMapping", "type", "rank_set", "group_name", "group_id", "pg_name")
    made[GROUPS] = pa.Table.from_pylist(groups_of(groups), pa.schema(SCHEMAS[GROUPS]))
    about = database.text_rows("ClusterBaseInfo", "key", "value")
    return made, {key: value for row in about if (key := row["key"]) and (value := row["value"])}
