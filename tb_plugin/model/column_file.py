"""A memory-mapped file of columns with a header."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from tb_plugin.errors import CacheFileLost


def one_list(values: pa.Array) -> pa.Array:
    """Returns a column as one list value. Columns of different lengths then fit into the same record."""
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def write_columns(columns: Mapping[str, pa.Array], header: Mapping[str, Any], path: str) -> None:
    """Writes columns and a header to a file. Raises OSError."""
    table = with_header(columns, header)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_columns(path: str) -> tuple[pa.Table, dict[str, Any]]:
    """Maps a file into memory and returns its columns and its header."""
    with pa.memory_map(path) as mapped:
        table = pa.ipc.open_file(mapped).read_all()
    return table, header_of(table)


def with_header(columns: Mapping[str, pa.Array], header: Mapping[str, Any]) -> pa.Table:
    """Returns the columns as a table with the header in its metadata."""
    return pa.table(dict(columns)).replace_schema_metadata({"torch_trace": json.dumps(header)})


def header_of(table: pa.Table) -> dict[str, Any]:
    """Returns the header, which is in the metadata of the table."""
    header: dict[str, Any] = json.loads(table.schema.metadata[b"torch_trace"])
    return header


@contextmanager
def cache_file_errors(what: str, path: str, again: str) -> Iterator[None]:
    """Converts errors about a missing or damaged cache file to CacheFileLost.

    Its message is ``what`` followed by "gone." or "damaged.".
    """
    try:
        yield
    except FileNotFoundError as error:
        raise CacheFileLost(f"{what} gone.", path, again) from error
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise CacheFileLost(f"{what} damaged.", path, again) from error
