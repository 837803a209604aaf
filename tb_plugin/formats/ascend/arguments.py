"""What words in a profile mean, and arguments in the model's form: the same in its trace view and in its database."""

from __future__ import annotations

import json
import re

from tb_plugin.model.trace.schema import EventKind

MODULE_NAME = "nn.Module: "
"""How the names of Python calls begin that are modules."""
_BY_TASK = (
    (re.compile(r"PCIE_DMA|MEMCPY|SDMA_SQE"), EventKind.MEMCPY),
    (re.compile(r"(?i)EVENT|NOTIFY|WAIT|WRITE.?VALUE|RECORD|CONDITION"), EventKind.SYNC),
    (re.compile(r"PLACE_HOLDER|^SDMA$|PROFILING|NOP|BARRIER"), EventKind.DEVICE_ANNOTATION),
)
"""Kinds of tasks that are no kernels. Tasks of SDMA are what operations of a group are made of."""


_INTEGER = re.compile(r"-?[0-9]{1,18}")


def kind_of_task(task: str) -> EventKind:
    """Returns what a task of this type is; one that nobody knows counts as a kernel."""
    return next((kind for pattern, kind in _BY_TASK if pattern.search(task)), EventKind.KERNEL)


def as_shapes(text: str) -> str:
    """Returns ``32,3;\\r\\n64;\\r\\n`` as the model's ``[[32, 3], [64], []]``, "" where there is no shape."""
    shapes = [[int(n) if _INTEGER.fullmatch(n) else n for n in part.split(",") if n] for part in _parts(text)]
    return json.dumps(shapes) if any(shapes) else ""


def as_types(text: str) -> str:
    """Returns ``float;\\r\\nScalar`` as the model's ``["float", "Scalar"]``, "" where there is none."""
    parts = _parts(text)
    return json.dumps(parts) if any(parts) else ""


def as_stack(text: str) -> str:
    """Returns the frames of a call stack separated by ``;`` alone."""
    return ";".join(frame for frame in _parts(text) if frame)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";")]
