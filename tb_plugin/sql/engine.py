"""A read-only SQL engine (DuckDB) over Arrow tables in memory.

A query is data of a user, or of somebody who sent a link: it must not read files, reach the network, load
extensions or change settings. ``docs/decisions/`` says why DuckDB.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from tb_plugin.errors import BadRequest, MissingPackage

if TYPE_CHECKING:
    import duckdb

SECONDS = 30.0
MEMORY_BYTES = 1024**3
# An answer with more rows, or with more bytes, is cut.
MOST_ROWS = 100_000
MOST_BYTES = 64 * 2**20
# Names of columns that the view adds.
RESERVED = ("sql_row",)
# The limit of memory holds for the whole process.
_one_at_a_time = threading.Lock()


class SqlSource(Struct, frozen=True):
    """One profile: its values of the place columns, such as ``rank``, and its tables by name, made when asked."""

    place: Mapping[str, str]
    table: Callable[[str], pa.Table | None]


class SqlAnswer(Struct, frozen=True):
    table: pa.Table
    is_cut: bool
    """Whether the query has more rows than the answer."""


def run_sql(
    sources: Iterable[SqlSource], names: Iterable[str], query: str, seconds: float = SECONDS, is_guarded: bool = False
) -> SqlAnswer:
    """Runs one SELECT over the tables of these sources.

    ``names`` are the names of all tables. Only the tables that the query names are made. Raises BadRequest for a query
    that fails, is not a SELECT, or takes longer than ``seconds``; MissingPackage without DuckDB. ``is_guarded`` also
    limits the memory of this process, which must not do anything else.
    """
    duckdb = _duckdb()
    connection = duckdb.connect(":memory:", config=_CONFIG)
    try:
        with _refused(duckdb):
            statements = connection.extract_statements(query)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise BadRequest("A query is one SELECT.", "query", "Write a single SELECT statement.")
            used, is_certain = _used(duckdb, connection, query)
        for name in sorted(used & set(names)):
            if not _add(connection, name, sources) and is_certain:
                raise BadRequest(f"The profile has no table {name}.", "query", "Use another table.")
        # Views need the replacement of names off, and all settings fixed, from here on.
        connection.execute("set lock_configuration = true")
        with _refused(duckdb), _limited_memory() if is_guarded else nullcontext(), _limited_time(connection, seconds):
            return _cut(connection.sql(query).to_arrow_reader(2048))
    finally:
        connection.close()


def _used(duckdb: Any, connection: duckdb.DuckDBPyConnection, query: str) -> tuple[set[str], bool]:
    """Returns the tables that a query names, and whether these are certain."""
    try:
        return {name.lower() for name in connection.get_table_names(query)}, True
    except duckdb.BinderException:  # "using" and "natural join" need the columns of the tables
        code = query.encode()
        tokens = [code[place:] for place, kind in duckdb.tokenize(query) if kind == duckdb.token_type.identifier]
        return {found[0].decode().lower() for token in tokens if (found := re.search(rb"\w+", token))}, False


_CONFIG: dict[str, Any] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": f"{MEMORY_BYTES // 2**20}MiB",
    "max_temp_directory_size": "0KiB",
    # With several threads, rows that an order does not tell apart would change places from run to run.
    "threads": "1",
}


def _duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise MissingPackage("SQL needs DuckDB.", "", "pip install 'torch-trace-tb[sql]'") from error
    return duckdb


def _add(connection: duckdb.DuckDBPyConnection, name: str, sources: Iterable[SqlSource]) -> bool:
    """Adds a table, if a profile has it."""
    selects: list[str] = []
    for source in sources:
        table = source.table(name)
        if table is None:
            continue
        part = f"{name} of {len(selects)}"
        connection.register(part, table)
        place = "".join(f"{_quoted(text)} as {key}, " for key, text in source.place.items())
        selects.append(f'select {place}* from "{part}"')
    if selects:
        connection.execute(f'create view "{name}" as {" union all by name ".join(selects)}')
    return bool(selects)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _refused(duckdb: Any) -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError, MemoryError) as error:  # OSError: after the first rows
        text = str(error)
        what, do = text.split("\n\nLINE")[0].partition(" Error: ")[2] or text, "Correct the query."
        if isinstance(error, duckdb.InterruptException) or "INTERRUPT" in text.upper():
            what, do = "The query took too long.", "Select fewer rows, or group them."
        elif isinstance(error, duckdb.OutOfMemoryException | MemoryError) or "out of memory" in text.lower():
            what, do = "The query needs too much memory.", "Select fewer rows, or group them."
        raise BadRequest(what, "query", do) from error


@contextmanager
def _limited_memory() -> Iterator[None]:
    """Limits the memory of this process on Linux: DuckDB does not count single long texts."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 (no path of a user)
            used = int(statm.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    with _one_at_a_time:
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        set_before = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_AS, (min([used + 2 * MEMORY_BYTES, *set_before]), hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def _limited_time(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cut(batches: pa.RecordBatchReader) -> SqlAnswer:
    found: list[pa.RecordBatch] = []
    rows = size = 0
    is_cut = False
    for batch in batches:
        size += batch.nbytes
        is_cut = rows + len(batch) > MOST_ROWS or size > MOST_BYTES
        found.append(batch.slice(0, MOST_ROWS - rows if size <= MOST_BYTES else 0))
        rows += len(batch)
        if is_cut:
            break
    return SqlAnswer(_plain(pa.Table.from_batches(found, batches.schema)), is_cut)


def _plain(table: pa.Table) -> pa.Table:
    """Returns the rows as numbers, flags and texts, under different names."""
    names: list[str] = []
    for name in table.column_names:
        new, number = name, 1
        while new in names or new in RESERVED:
            number += 1
            new = f"{name} {number}"
        names.append(new)
    return pa.table([_plain_column(column) for column in table.columns], names)


def _plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return column
    if pa.types.is_decimal(kind):  # the type of sums
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            return column.cast(pa.float64())
    try:
        return column.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # lists, structs, bytes
        return pa.chunked_array(
            [pa.array([None if each is None else str(each) for each in column.to_pylist()], pa.large_string())]
        )
