"""Nodes and tensors as one Arrow file that any process maps: each column a list, what is no column in the header."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow as pa

from tb_plugin.errors import CacheFileLost
from tb_plugin.model.column_file import kept, one_list, read_columns, write_columns
from tb_plugin.model.execution_trace.table import NODES, TENSORS, ExecutionTrace
from tb_plugin.model.trace.report import Issue, ReadReport

VERSION = 1
"""Part of every cache key: raise it when the meaning or the set of columns changes."""
_AGAIN = "It is made anew from its file: ask again."


def write(trace: ExecutionTrace, path: str) -> None:
    """Writes the file. Raises OSError."""
    header = {
        "version": VERSION,
        "schema": trace.schema,
        "process": trace.process,
        "report": asdict(trace.report),
    }
    tables = {"nodes": trace.nodes, "tensors": trace.tensors}
    columns = {
        f"{name}.{key}": one_list(table[key].combine_chunks())
        for name, table in tables.items()
        for key in table.column_names
    }
    write_columns(columns, header, path)


def read(path: str) -> ExecutionTrace:
    """Maps the file. Raises KeptLost when it is gone, damaged or of another version."""
    with kept("The kept columns are", path, _AGAIN):
        table, header = read_columns(path)
        if header["version"] != VERSION:
            raise CacheFileLost("The kept columns are of another version.", path, _AGAIN)

        def part(name: str, schema: pa.Schema) -> pa.Table:
            return pa.table([table[f"{name}.{key}"].chunk(0).values for key in schema.names], schema=schema)

        report = header["report"]
        issues = tuple(Issue(**{**issue, "examples": tuple(issue["examples"])}) for issue in report["issues"])
        return ExecutionTrace(
            part("nodes", NODES),
            part("tensors", TENSORS),
            header["schema"],
            header["process"],
            ReadReport(**{**report, "issues": issues}),
        )
