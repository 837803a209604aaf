"""Nodes of an execution trace, and their input and output tensors."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from tb_plugin.model.trace.report import ReadReport

TEXT = pa.dictionary(pa.int32(), pa.large_string())
# node and parent are ids in the file, assigned in start order; function is the "Record function id" of traces.
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
# row is the index of the node; tensors of a list share the position of the list.
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


class ExecutionTrace(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Nodes sorted by start, and their input and output tensors."""

    nodes: pa.Table
    tensors: pa.Table
    schema: str
    process: int | None
    report: ReadReport

    def __len__(self) -> int:
        return int(self.nodes.num_rows)
