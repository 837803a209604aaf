"""The changes as one Arrow file that any process maps: a column each, what is no column in the header, a checksum behind."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from tb_plugin.errors import CacheFileLost
from tb_plugin.model.category_memory.table import CategoryMemory
from tb_plugin.model.column_file import kept, read_columns, write_columns
from tb_plugin.model.trace.report import Issue, ReadReport

VERSION = 1
"""Part of every cache key: raise it when the meaning or the set of columns changes."""
COLUMNS = ("time_ns", "category", "action", "bytes")
_AGAIN = "It is made anew from its file: ask again."


def write(memory: CategoryMemory, path: str) -> None:
    """Writes the file. Raises OSError."""
    header = {
        "version": VERSION,
        "origin_ns": memory.origin_ns,
        "end_ns": memory.end_ns,
        "before": memory.before.tolist(),
        "missing": memory.missing.tolist(),
        "report": asdict(memory.report),
    }
    write_columns({name: pa.array(getattr(memory, name)) for name in COLUMNS}, header, path)


def read(path: str) -> CategoryMemory:
    """Maps the file. Raises KeptLost when it is gone, damaged or of another version."""
    with kept("The kept columns are", path, _AGAIN):
        table, header = read_columns(path)
        if header["version"] != VERSION:
            raise CacheFileLost("The kept columns are of another version.", path, _AGAIN)
        return _read(table, header)


def _read(table: pa.Table, header: dict[str, Any]) -> CategoryMemory:
    def column(name: str) -> np.ndarray[Any, np.dtype[Any]]:
        chunks = table[name].chunks
        # One record holds everything: nothing is copied.
        values: np.ndarray[Any, np.dtype[Any]] = (
            chunks[0].to_numpy() if chunks else np.empty(0, table.schema.field(name).type.to_pandas_dtype())
        )
        return values

    report = header["report"]
    issues = tuple(Issue(**{**issue, "examples": tuple(issue["examples"])}) for issue in report["issues"])
    return CategoryMemory(
        origin_ns=header["origin_ns"],
        end_ns=header["end_ns"],
        **{name: column(name) for name in COLUMNS},
        before=np.array(header["before"], np.int64),
        missing=np.array(header["missing"], np.int64),
        report=ReadReport(**{**report, "issues": issues}),
    )
