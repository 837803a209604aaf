"""Conversion of Ascend's task types and arguments to the model's form."""

from __future__ import annotations

import json
import re

from tb_plugin.model.trace.schema import EventKind

MODULE_NAME = "nn.Module: "  # prefix of Python calls that are modules
# tasks that are not kernels; SDMA tasks are part of communication operations
_TASK_KINDS = (
    (re.compile(r"PCIE_DMA|MEMCPY|SDMA_SQE"), EventKind.MEMCPY),
    (re.compile(r"(?i)EVENT|NOTIFY|WAIT|WRITE.?VALUE|RECORD|CONDITION"), EventKind.SYNC),
    (re.compile(r"PLACE_HOLDER|^SDMA$|PROFILING|NOP|BARRIER"), EventKind.DEVICE_ANNOTATION),
)


_INTEGER = re.compile(r"-?[0-9]{1,18}")


def kind_of_task(task: str) -> EventKind:
    """Returns the event kind of a task type. An unknown type is a kernel."""
    return next((kind for pattern, kind in _TASK_KINDS if pattern.search(task)), EventKind.KERNEL)


def as_shapes(text: str) -> str:
    r"""Converts shapes such as ``32,3;\n64;\n`` to ``[[32, 3], [64], []]``. Returns "" if there are no shapes."""
    shapes = [[int(n) if _INTEGER.fullmatch(n) else n for n in part.split(",") if n] for part in _parts(text)]
    return json.dumps(shapes) if any(shapes) else ""


def as_types(text: str) -> str:
    r"""Converts types such as ``float;\nScalar`` to ``["float", "Scalar"]``. Returns "" if there are no types."""
    parts = _parts(text)
    return json.dumps(parts) if any(parts) else ""


def as_stack(text: str) -> str:
    """Returns the frames of a call stack, separated by ``;``."""
    return ";".join(frame for frame in _parts(text) if frame)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";")]
