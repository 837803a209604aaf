"""Nodes of an execution trace and the tensors that they take and give, as tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tb_plugin.model.trace.report import ReadReport

TEXT = pa.dictionary(pa.int32(), pa.large_string())
NODES = pa.schema(
    {
        "node": pa.int64(),
        "parent": pa.int64(),
        "name": TEXT,
        "function": pa.int64(),
        "thread": pa.int64(),
        "schema": TEXT,
    }
)
"""``node`` and ``parent`` are ids of the file, given as nodes begin; ``function`` is how a trace of it calls it."""
TENSORS = pa.schema(
    {
        "row": pa.int64(),
        "is_output": pa.bool_(),
        "position": pa.int64(),
        "tensor": pa.int64(),
        "storage": pa.int64(),
        "offset": pa.int64(),
        "elements": pa.int64(),
        "item_bytes": pa.int64(),
        "device": TEXT,
        "shape": TEXT,
        "strides": TEXT,
        "type": TEXT,
    }
)
"""``row`` is the place of the node; of a list of tensors each has the position of the list."""


@dataclass(frozen=True, eq=False)
class ExecutionTrace:
    """Nodes in the order in which they begin, and the tensors of each."""

    nodes: pa.Table
    tensors: pa.Table
    schema: str
    """Version that the file states."""
    process: int | None
    report: ReadReport

    def __len__(self) -> int:
        return int(self.nodes.num_rows)
