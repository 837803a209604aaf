"""Reader for job analyses: a folder of files.

Each file may be missing, truncated or unreadable.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.ascend import CLUSTER
from tb_plugin.formats.ascend.cluster import filenames as files
from tb_plugin.formats.ascend.cluster.filenames import READER_ID, kind_of
from tb_plugin.formats.ascend.cluster.rows import Rows
from tb_plugin.formats.ascend.cluster.tables import tables_into
from tb_plugin.formats.ascend.cluster.texts import (
    NEEDED,
    communication_into,
    group_into,
    groups_into,
    matrix_into,
    ranks_text,
    steps_into,
)
from tb_plugin.formats.ascend.csv_table import read_table
from tb_plugin.formats.ascend.open_files import OpenedFiles
from tb_plugin.formats.base import FileSize, Progress, ReadOptions, ReadState, Source
from tb_plugin.formats.format_entry import DeclaredReader
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.values import to_storable
from tb_plugin.model.cluster import Cluster
from tb_plugin.model.trace.job_tables import GROUPS
from tb_plugin.model.trace.report import ReadReport

PER_BYTE = 14  # peak memory per byte of text or of a database (measured at 25 MB: 6 for calls, 11 for links)
PACKED = 12  # bytes of text per stored byte of an archive
_AGAIN = "Run the analysis again: msprof-analyze cluster -d <profile folder> -m all."
_INCOMPLETE_CODES = frozenset({"file_lost", "truncated_tail", "database_cut", "database_damaged"})


class AscendClusterReader(DeclaredReader, entry=CLUSTER):
    """Reads the output of ``msprof-analyze cluster`` (formerly ``cluster_analysis.py``), which covers all ranks of
    a job.
    """

    def peak_memory_bytes(self, sizes: Mapping[str, FileSize]) -> int:
        return PER_BYTE * sum(size.text_bytes(PACKED) for size in sizes.values())

    def read(self, source: Source, options: ReadOptions, progress: Progress) -> Cluster:
        """Reads the analysis. Raises UnreadableTrace if no file is readable, and any error that ``progress`` raises."""
        return _Reading(source, progress).read()


class _Reading:
    def __init__(self, source: Source, progress: Progress) -> None:
        names = {kind: name for name in source.names() if (kind := kind_of(name))}
        self._opened = OpenedFiles(source, names, progress)
        self._progress = progress

    def read(self) -> Cluster:
        texts = Rows(IssueLog())
        self._steps(texts)
        for kind, into in ((files.GROUPS, groups_into), (files.MATRIX, matrix_into)):
            if (found := self._document(kind, texts)) is not None:
                into(found, texts)
                self._opened.tell(kind, texts.log)
        if (found := self._document(files.COMMUNICATION, texts)) is not None:
            _more_groups(communication_into(found, texts), texts)
            self._opened.tell(files.COMMUNICATION, texts.log)
        tables = texts.tables()
        stored, about = self._database()
        tables = {**stored, **tables}
        if not self._opened.is_any_read:
            raise UnreadableTrace("None of the analysis files could be read.", do=_AGAIN)
        rows = sum(table.num_rows for table in tables.values())
        dropped = sum(issue.count for issue in self._opened.issues if issue.outcome == "dropped")
        self._progress(ReadState(1.0, rows, {"other": rows}))
        report = ReadReport(
            READER_ID,
            self._opened.file_bytes,
            self._opened.text_bytes,
            events_in_file=rows + dropped,
            events_loaded=rows,
            events_dropped=dropped,
            complete=not any(issue.code in _INCOMPLETE_CODES for issue in self._opened.issues),
            issues=tuple(self._opened.issues),
            records="rows",
        )
        return Cluster(tables, about, report)

    def _steps(self, rows: Rows) -> None:
        content = self._opened.content(files.STEPS, log=rows.log)
        if content is None:
            return
        table = read_table((content,), rows.log)
        lacking = list(NEEDED) if table is None else [title for title in NEEDED if not table.has(title)]
        if table is None or lacking:
            text = f"the file is not shown, because it has no column {' and no column '.join(lacking)}"
            self._note(files.STEPS, "missing_columns", text)
        else:
            self._opened.is_any_read = True
            steps_into(table, rows)
        self._opened.tell(files.STEPS, rows.log)

    def _document(self, kind: str, rows: Rows) -> dict[str, Any] | None:
        content = self._opened.content(kind, log=rows.log)
        if content is None:
            return None
        found = _document(content, rows.log)
        if found is None:
            self._note(kind, "file_lost", f"the file contains no JSON object or is damaged. {_AGAIN}")
            self._opened.tell(kind, rows.log)
            return None
        self._opened.is_any_read = True
        return found

    def _database(self) -> tuple[dict[str, pa.Table], dict[str, str]]:
        rows = Rows(IssueLog())
        about = self._opened.database(files.DATABASE, lambda database: tables_into(database, rows), rows.log)
        return rows.tables(), about or {}

    def _note(self, kind: str, code: str, text: str) -> None:
        self._opened.note(self._opened.names[kind], code, text)


def _more_groups(groups: Mapping[str, list[int]], rows: Rows) -> None:
    """Adds names to the groups that have only ranks so far. Also adds groups that occur only in the file of calls."""
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


MOST_DEPTH = 64
_DECODER = msgspec.json.Decoder(float_hook=str)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]|N/A|NaN|-?Infinity', re.DOTALL)
_CLOSER = {b"{": b"}", b"[": b"]"}


def _document(content: bytes, log: IssueLog) -> dict[str, Any] | None:
    """Returns the JSON object in a file, or None. Numbers with a decimal point become texts, to preserve all digits."""
    for text in (content, None):
        try:
            found = _DECODER.decode(_repaired(content, log) if text is None else text)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            continue
        return to_storable(found, content, log) if isinstance(found, dict) else None
    return None


def _repaired(content: bytes, log: IssueLog) -> bytes:
    """Replaces words that are not valid JSON by null, and closes the text after the last complete member."""
    parts: list[bytes] = []
    open_: list[bytes] = []
    copied, whole, closers = 0, 0, b""
    words = 0
    for match in _TOKEN.finditer(content):
        token = match[0]
        if token in _CLOSER:
            open_.append(_CLOSER[token])
            if len(open_) > MOST_DEPTH:
                return b""
        elif token in (b"}", b"]"):
            if not open_ or open_.pop() != token:
                break
            parts.append(content[copied : match.end()])
            copied = match.end()
            whole, closers = len(parts), b"".join(reversed(open_))
        elif not token.startswith(b'"'):
            parts += [content[copied : match.start()], b"null"]
            copied = match.end()
            words += 1
    if words:
        log.add("bare_word", "repaired", count=words)
    if closers:
        log.note("truncated_tail", "the file is truncated; only its complete entries are shown")
    return b"".join(parts[:whole]) + closers
