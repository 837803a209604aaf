"""The Reader of an analysis of a job: a folder of files, of which any may be missing, cut off or unreadable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from tb_plugin.cluster.table import Cluster
from tb_plugin.errors import UnreadableTrace, UserError
from tb_plugin.readers.ascend.cluster import filenames as files
from tb_plugin.readers.ascend.cluster.documents import document
from tb_plugin.readers.ascend.cluster.filenames import READER_ID, candidates, kind_of
from tb_plugin.readers.ascend.cluster.rows import Rows
from tb_plugin.readers.ascend.cluster.tables import tables_into
from tb_plugin.readers.ascend.cluster.texts import (
    NEEDED,
    communication_into,
    group_into,
    groups_into,
    matrix_into,
    ranks_text,
    steps_into,
)
from tb_plugin.readers.ascend.csv_table import read_table
from tb_plugin.readers.ascend.database import opened
from tb_plugin.readers.base import Candidate, FileSize, ListedFile, Progress, ReadOptions, ReadState, Source
from tb_plugin.readers.issues import IssueLog
from tb_plugin.readers.stream import TextStream
from tb_plugin.trace.job_tables import GROUPS
from tb_plugin.trace.report import Issue, ReadReport

PER_BYTE = 14
"""Memory at the peak of a read for each byte of text or of a database: 6 (calls) to 11 (links) were measured at 25 MB."""
PACKED = 12
"""Bytes of text for each stored byte of an archive."""
_AGAIN = "Make it again: msprof-analyze cluster -d <folder of the profiles> -m all."
_LOST = frozenset({"file_lost", "truncated_tail", "database_cut", "database_damaged"})


class AscendClusterReader:
    """Reads what ``msprof-analyze cluster`` (once ``cluster_analysis.py``) writes about all ranks of a job."""

    id = READER_ID
    title = "Ascend cluster analysis"
    raw = Cluster
    endings: tuple[str, ...] = (f"{files.OUTPUT}/", files.STEPS, files.DATABASE)

    def find(self, listing: Sequence[ListedFile]) -> list[Candidate]:
        """Returns the analyses among the listed files, judged by name alone."""
        return candidates(listing)

    def sniff(self, head: bytes) -> bool:
        """Returns False: a folder is known by the names of its files."""
        return False

    def need_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        """Returns the memory that reading files of these sizes takes at its peak."""
        return PER_BYTE * sum(size.text_bytes(PACKED) for size in sizes.values())

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> Cluster:
        """Returns the analysis. Raises UnreadableTrace where no file can be read, and what ``progress`` raises."""
        return _Reading(source, progress).read()


class _Reading:
    """One read in progress."""

    def __init__(self, source: Source, progress: Progress) -> None:
        self._source = source
        self._progress = progress
        self._names = {kind: name for name in source.names() if (kind := kind_of(name))}
        self._whole = max(1, sum(source.size(name) for name in source.names()))
        self._done = 0
        self._bytes = [0, 0]
        self._issues: list[Issue] = []
        self._read_any = False

    def read(self) -> Cluster:
        """Returns the analysis."""
        texts = Rows(IssueLog())
        self._steps(texts)
        for kind, into in ((files.GROUPS, groups_into), (files.MATRIX, matrix_into)):
            if (found := self._document(kind, texts)) is not None:
                into(found, texts)
                self._told(kind, texts.log)
        if (found := self._document(files.COMMUNICATION, texts)) is not None:
            _more_groups(communication_into(found, texts), texts)
            self._told(files.COMMUNICATION, texts.log)
        tables = texts.tables()
        stored, about = self._database()
        tables = {**stored, **tables}
        if not self._read_any:
            raise UnreadableTrace("No file of the analysis could be read.", do=_AGAIN)
        rows = sum(table.num_rows for table in tables.values())
        dropped = sum(issue.count for issue in self._issues if issue.outcome == "dropped")
        self._progress(ReadState(1.0, rows, {"other": rows}))
        report = ReadReport(
            READER_ID,
            self._bytes[0],
            self._bytes[1],
            events_seen=rows + dropped,
            events_kept=rows,
            events_dropped=dropped,
            complete=not any(issue.code in _LOST for issue in self._issues),
            issues=tuple(self._issues),
            records="rows",
        )
        return Cluster(tables, about, report)

    def _steps(self, rows: Rows) -> None:
        content = self._content(files.STEPS, rows.log)
        if content is None:
            return
        table = read_table((content,), rows.log)
        lacking = list(NEEDED) if table is None else [title for title in NEEDED if not table.has(title)]
        if table is None or lacking:
            text = f"the file has no column {' and no column '.join(lacking)}: nothing of it is shown"
            self._note(files.STEPS, "missing_columns", text)
        else:
            self._read_any = True
            steps_into(table, rows)
        self._told(files.STEPS, rows.log)

    def _document(self, kind: str, rows: Rows) -> dict[str, Any] | None:
        content = self._content(kind, rows.log)
        if content is None:
            return None
        found = document(content, rows.log)
        if found is None:
            self._note(kind, "file_lost", f"the file holds no JSON object, or it is damaged. {_AGAIN}")
            self._told(kind, rows.log)
            return None
        self._read_any = True
        return found

    def _content(self, kind: str, log: IssueLog) -> bytes | None:
        name = self._names.get(kind)
        if name is None:
            return None
        parts = []
        try:
            with self._source.open(name) as raw:
                stream = TextStream(raw, self._source.size(name), lambda fraction: None, log)
                while part := stream.read(1 << 20):
                    parts.append(part)
        except UserError as error:
            self._note(kind, "file_lost", f"the file could not be read: {error.what}")
            return None
        self._pass(self._source.size(name), stream.text_bytes)
        return b"".join(parts)

    def _database(self) -> tuple[dict[str, pa.Table], dict[str, str]]:
        """The tables of the database, and what it says of the job."""
        name = self._names.get(files.DATABASE)
        if name is None:
            return {}, {}
        rows, size = Rows(IssueLog()), self._source.size(name)

        def tell(fraction: float) -> None:
            self._progress(ReadState(min(1.0, (self._done + size * fraction) / self._whole), 0, {}))

        about: dict[str, str] = {}
        try:
            with opened(self._source, name, rows.log, tell) as database:
                about = tables_into(database, rows)
        except UserError as error:
            self._note(files.DATABASE, "file_lost", f"the file could not be read: {error.what}")
        else:
            self._read_any = True
        self._told(files.DATABASE, rows.log)
        self._pass(size, size)
        return rows.tables(), about

    def _pass(self, stored: int, text: int) -> None:
        self._bytes[0] += stored
        self._bytes[1] += text
        self._done += stored
        self._progress(ReadState(min(1.0, self._done / self._whole), 0, {}))

    def _told(self, kind: str, log: IssueLog) -> None:
        name = PurePosixPath(self._names[kind]).name
        self._issues += [replace(issue, file=name) for issue in log.issues()]
        log.entries.clear()

    def _note(self, kind: str, code: str, text: str) -> None:
        self._issues.append(Issue(code, "note", text, 1, file=PurePosixPath(self._names[kind]).name))


def _more_groups(groups: Mapping[str, list[int]], rows: Rows) -> None:
    """Names groups that are listed by their ranks alone, and adds those that only the file of calls knows."""
    known = {row["group"] for row in rows.rows(GROUPS)}
    unnamed: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows.rows(GROUPS):
        if row["group"] is None and row["kind"] == "collective":
            unnamed[row["ranks"]].append(row)
    for group, ranks in groups.items():
        if group in known or not ranks:
            continue
        if found := unnamed.get(ranks_text(ranks)):
            found.pop(0)["group"] = group
        else:
            group_into(rows, ranks, None, group)
