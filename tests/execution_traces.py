"""Execution traces by hand: nodes with their tensors."""

from __future__ import annotations

import json
from typing import Any

from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.execution_trace.reader import ExecutionTraceReader
from tb_plugin.model.execution_trace import ExecutionTrace
from tests.builders import Bytes


def tensor(number: int, elements: int = 6, device: str = "cpu") -> list[Any]:
    """A tensor of floats in a storage of its own."""
    return [number, number + 1000, 0, elements, 4, device]


def node(number: int, parent: int, name: str, takes: Any = (), gives: Any = (), function: int = 0) -> dict[str, Any]:
    """A node as PyTorch 2.13 writes it; values that are no lists are plain numbers."""
    return {
        "id": number, "name": name, "ctrl_deps": parent, "inputs": _side(takes), "outputs": _side(gives),
        "attrs": [{"name": "rf_id", "type": "uint64", "value": function}, {"name": "tid", "type": "uint64", "value": 1},
                  {"name": "op_schema", "type": "string", "value": f"{name}(...)"}],
    }  # fmt: skip


def _side(values: Any) -> dict[str, Any]:
    is_tensor = [isinstance(value, list) for value in values]
    return {
        "values": list(values),
        "shapes": [[2, 3] if flag else [] for flag in is_tensor],
        "types": ["Tensor(float)" if flag else "Int" for flag in is_tensor],
        "strides": [[3, 1] if flag else [] for flag in is_tensor],
    }


def document(*nodes: Any, **more: Any) -> dict[str, Any]:
    """A file of some nodes."""
    return {
        "schema": "1.1.1-chakra.0.0.4",
        "pid": 77,
        "time": "",
        "start_ts": 1,
        "nodes": list(nodes),
        "finish_ts": 2,
        **more,
    }


def execution_trace(content: Any) -> ExecutionTrace:
    """What the reader makes of a file."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return ExecutionTraceReader().read(Bytes(data, "et.json"), ReadOptions(), no_progress)
