"""A memory-mapped file of columns with a header."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from tb_plugin.errors import CacheFileLost


def one_list(values: pa.Array) -> pa.Array:
    """Returns a column as a single list value. Columns of different lengths can then be stored in the same record."""
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def write_columns(columns: Mapping[str, pa.Array], header: Mapping[str, Any], path: str) -> None:
    table = with_header(columns, header)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_columns(path: str) -> tuple[pa.Table, dict[str, Any]]:
    with pa.memory_map(path) as mapped:
        table = pa.ipc.open_file(mapped).read_all()
    return table, header_of(table)


def with_header(columns: Mapping[str, pa.Array], header: Mapping[str, Any]) -> pa.Table:
    return pa.table(dict(columns)).replace_schema_metadata({"torch_trace": json.dumps(header)})


def header_of(table: pa.Table) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(table.schema.metadata[b"torch_trace"])
    return header


@contextmanager
def cache_file_errors(what: str, path: str, again: str) -> Iterator[None]:
    """Converts errors to CacheFileLost, with the message ``what`` followed by "gone." or "damaged."."""
    try:
        yield
    except FileNotFoundError as error:
        raise CacheFileLost(f"{what} gone.", path, again) from error
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise CacheFileLost(f"{what} damaged.", path, again) from error
