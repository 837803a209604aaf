"""Safe access to an untrusted SQLite database."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from tb_plugin.errors import StorageError, UnreadableTrace
from tb_plugin.formats.ascend.database.cells import Columns, Form, column_of
from tb_plugin.formats.base import Source
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.temp_dirs import PrivateFolder

MAGIC = b"SQLite format 3\0"
MOST_SECONDS = 120.0  # limit per table; the largest real tables take a few seconds
MOST_TEXT_BYTES = 16 * 1024 * 1024  # bytes of one cell or row
MOST_TABLES = 4096
LEAST_ROW_BYTES = 4  # minimum size of a row; if there are more rows than fit, pages refer to each other
MOST_LOST = 20  # maximum ratio of original to truncated length; shorter files are not read
_HEAD_BYTES = 100
# header bytes for a write-ahead log (a separate file that is not read), and their value without a log
_LOG_PLACE, _NO_LOG = 18, b"\1\1"
_BLOCK_BYTES = 1 << 20
_BATCH, _FETCH_ROWS = 20_000, 200  # rows per batch of columns, and rows per fetch
_READ_SHARE = 0.5  # progress after the copy; it stays at this value, because the rest cannot be measured
_CHECK_STEPS = 50_000  # SQLite instructions between two time checks
_AGAIN = (
    "Export the profile again with torch_npu.profiler.profiler.analyse, or also export text files (export_type=Text)."
)
_PRAGMAS = frozenset({"table_info"})
_SCHEMA = frozenset({"sqlite_master", "sqlite_schema"})
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
_FORMS = {"whole": Form.WHOLE, "number": Form.NUMBER, "text": Form.TEXT}


class Database:
    """An open database, copied because SQLite needs a local file. Unreadable data is logged and treated as missing.

    Access is read-only, restricted to columns of ordinary tables, and limited in time and memory.
    """

    def __init__(self, connection: sqlite3.Connection, size: int, log: IssueLog, tell: Callable[[float], None]) -> None:
        self.log = log
        self.size = size
        self._connection = connection
        self._report_progress = tell
        self._deadline = 0.0
        self._allowed: frozenset[str] = _SCHEMA
        connection.set_progress_handler(self._is_late, _CHECK_STEPS)
        connection.set_authorizer(self._allow)
        self._tables = self._listed()

    def has(self, table: str) -> bool:
        """Returns True if the database has an ordinary table with this name."""
        return table.casefold() in self._tables

    def columns(self, table: str) -> tuple[str, ...]:
        """Returns the column names of a table. The result is empty if there is no such table."""
        name = self._tables.get(table.casefold())
        if name is None:
            return ()
        rows = self._query_schema(f"PRAGMA table_info({_quoted(name)})", table)
        return tuple(str(row[1]) for row in rows)

    def read(self, table: str, *, needs: str = "", whole: str = "", number: str = "", text: str = "") -> Columns:
        """Reads columns of a table. Names are separated by spaces.

        ``needs`` and ``whole`` are integer columns. A missing column is null. But if a column in ``needs`` is
        missing, this is logged and the table is treated as empty.
        """
        wanted = dict.fromkeys(needs.split(), Form.WHOLE)
        for key, names in (("whole", whole), ("number", number), ("text", text)):
            wanted |= dict.fromkeys(names.split(), _FORMS[key])
        return self.read_as(table, wanted, needs.split())

    def read_as(self, table: str, wanted: Mapping[str, Form], needs: Sequence[str] = ()) -> Columns:
        """Reads columns of a table with the given types; see ``read``."""
        name = self._tables.get(table.casefold())
        if name is None:
            return Columns({}, 0)
        existing = {column.casefold(): column for column in self.columns(table)}
        missing = [column for column in needs if column.casefold() not in existing]
        if missing:
            text = f"table {table} has no column {', '.join(missing)}; its rows were skipped"
            self.log.add("missing_column", "note", text=text)
            return Columns({}, 0)
        names = [column for column in wanted if column.casefold() in existing]
        if not names:
            return Columns({}, 0)
        query = f"SELECT {', '.join(_quoted(existing[n.casefold()]) for n in names)} FROM {_quoted(name)}"
        parts: list[list[pa.Array]] = [[] for _ in names]
        rows = 0
        self._allowed = frozenset({name})
        for batch in self._batches(query, table):
            for part, column, values in zip(parts, names, zip(*batch, strict=True), strict=True):
                part.append(column_of(values, wanted[column], self.log, f"{table}.{column}"))
            rows += len(batch)
        made = {
            column: pa.chunked_array(part, wanted[column].value).combine_chunks()
            for column, part in zip(names, parts, strict=True)
        }
        return Columns({key: _one(array) for key, array in made.items()}, rows)

    def text_rows(self, table: str, *columns: str) -> list[dict[str, str | None]]:
        """Returns the rows of a small table of texts."""
        read = self.read_as(table, dict.fromkeys(columns, Form.TEXT))
        values = [read.array(column, Form.TEXT).to_pylist() for column in columns]
        return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]

    def _listed(self) -> dict[str, str]:
        rows = self._query_schema(_TABLES, "sqlite_master")
        if len(rows) > MOST_TABLES:
            self.log.add("many_tables", "note", text=f"only the first {MOST_TABLES} tables of the database were read")
        names = (row[0] for row in rows[:MOST_TABLES])
        return {name.casefold(): name for name in names if isinstance(name, str)}

    def _query_schema(self, query: str, table: str) -> list[tuple[object, ...]]:
        self._allowed = _SCHEMA
        return [row for batch in self._batches(query, table) for row in batch]

    def _batches(self, query: str, table: str) -> Iterator[list[tuple[object, ...]]]:
        """Yields the rows of a query in batches. If the query fails, logs the failure and stops."""
        rows_left = max(1000, self.size // LEAST_ROW_BYTES)
        self._deadline = time.monotonic() + MOST_SECONDS
        batch: list[tuple[object, ...]] = []
        try:
            cursor = self._connection.execute(query)
            # Fetches are small, because a damaged row loses all rows of its fetch.
            while part := cursor.fetchmany(_FETCH_ROWS):
                batch += part
                rows_left -= len(part)
                if rows_left < 0:
                    self._damaged(table, "the table has more rows than the file can contain")
                    return
                if len(batch) >= _BATCH:
                    yield batch
                    batch = []
                    self._report_progress(_READ_SHARE)
        except (sqlite3.Error, UnicodeError, MemoryError, OverflowError) as error:
            late = time.monotonic() > self._deadline
            self._damaged(table, f"the read took longer than {MOST_SECONDS:.0f} s" if late else str(error))
        if batch:
            yield batch

    def _damaged(self, table: str, why: str) -> None:
        text = f"only part of table {table} was read, so rows are missing: {why}. {_AGAIN}"
        self.log.add("database_damaged", "note", text=text)

    def _is_late(self) -> int:
        return int(time.monotonic() > self._deadline > 0)

    def _allow(self, action: int, first: str | None, second: str | None, place: str | None, inner: str | None) -> int:
        """Permits only reading columns of the current table, without views and triggers."""
        if action == sqlite3.SQLITE_SELECT and inner is None:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and inner is None and place in ("main", None) and first in self._allowed:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS and inner is None:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY


@contextmanager
def open_database(source: Source, name: str, log: IssueLog, tell: Callable[[float], None]) -> Iterator[Database]:
    """Opens a database. Raises StorageError, UnreadableTrace and errors of ``tell``, which receives 0 to 1."""
    with PrivateFolder() as folder:
        path = folder / "copy.db"
        size = _copied(source, name, path, log, tell)
        with closing(_connected(path)) as connection:
            yield Database(connection, size, log, tell)


def _copied(source: Source, name: str, path: Path, log: IssueLog, tell: Callable[[float], None]) -> int:
    """Copies the file and corrects its header. Returns its size in bytes."""
    size, whole = 0, max(1, source.size(name))
    try:
        with source.open(name) as raw, path.open("wb") as copy:
            while block := raw.read(_BLOCK_BYTES):
                if not size and not block.startswith(MAGIC):
                    raise UnreadableTrace(
                        "The file is not an SQLite database, or it is encrypted.",
                        where=name,
                        do="Export the database again, without encryption.",
                    )
                copy.write(block)
                size += len(block)
                tell(_READ_SHARE * min(1.0, size / whole))
        if size < _HEAD_BYTES:
            raise UnreadableTrace("The database is empty, or its header is truncated.", where=name, do=_AGAIN)
        with path.open("r+b") as copy:
            head = copy.read(_HEAD_BYTES)
            copy.seek(_LOG_PLACE)
            copy.write(_NO_LOG)
            copy.truncate(_length(head, size, log))
    except OSError as error:
        raise StorageError(f"The database could not be copied: {error.strerror or error}", where=name, do="") from error
    return size


def _length(head: bytes, size: int, log: IssueLog) -> int:
    """Returns the length in the header. The copy is padded to it, because SQLite refuses shorter files."""
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else max(page, 512)
    pages, stated = size // page, int.from_bytes(head[28:32], "big")
    if stated <= pages:
        return size
    text = f"the database is truncated: only its first {pages} of {stated} pages are in the file. {_AGAIN}"
    log.add("database_cut", "note", text=text)
    return page * min(stated, MOST_LOST * max(pages, 1))


def _connected(path: Path) -> sqlite3.Connection:
    # With ``immutable``, SQLite does not roll back a journal and takes no lock.
    uri = f"file:{quote(os.fspath(path))}?mode=ro&immutable=1"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, cached_statements=0)
    connection.text_factory = lambda content: str(content, "utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_TEXT_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    try:
        for setting in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {setting}")
    except (sqlite3.Error, UnicodeError):  # problems of the file are logged when its tables are read
        pass
    return connection


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _one(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns a single array, even if the texts exceed 2 GiB. ``combine_chunks`` would then return several."""
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
