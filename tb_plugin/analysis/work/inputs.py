"""Recorded inputs of an operator call, and its work."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tb_plugin.analysis.dtypes import element_bytes

Dims = tuple[int, ...]
# Longer texts are not parsed: lists of tensors may be very long.
_MAX_CHARS = 65_536


class Work(NamedTuple):
    flops: float
    bytes: float
    format: str
    """Number format of the inputs: "fp64", "fp32", "fp16" (also bfloat16), "fp8" or "int8"."""
    is_matrix: bool
    """Whether matrix units can do the operations."""


class Inputs:
    """Recorded inputs of a call, by position. Tensors without a recorded shape or type are None."""

    def __init__(self, shapes: str, types: str, values: str) -> None:
        self._shapes, self._types, self._values = (_parsed(text) for text in (shapes, types, values))

    def tensor(self, at: int) -> Tensor | None:
        if at >= min(len(self._shapes), len(self._types)):
            return None
        return _tensor(self._shapes[at], self._types[at])

    def tensors(self, at: int) -> list[Tensor] | None:
        """Returns the tensors of a list, None if a shape is not recorded."""
        if at >= len(self._shapes) or at >= len(self._types) or not isinstance(self._shapes[at], list):
            return None
        shapes, kind = self._shapes[at], self._types[at]
        types = kind if isinstance(kind, list) else [kind] * len(shapes)
        found = [_tensor(shape, each) for shape, each in zip(shapes, types, strict=False)]
        return None if not found or None in found else [each for each in found if each is not None]

    @property
    def has_values(self) -> bool:
        return bool(self._values)

    def value(self, at: int) -> Any:
        """Returns a recorded number, boolean or list of numbers; None = not recorded."""
        if at >= len(self._values):
            return None
        value = self._values[at]
        if not isinstance(value, str):
            return value
        text = value.strip()
        if text in ("True", "False"):
            return text == "True"
        try:
            return json.loads(text.replace("True", "true").replace("False", "false")) if text else None
        except ValueError:
            return None

    def ints(self, at: int) -> list[int] | None:
        value = self.value(at)
        if isinstance(value, list) and all(type(each) is int for each in value):
            return value
        return None


class Tensor(NamedTuple):
    dims: Dims
    dtype: str
    size: int
    """Bytes per element."""

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        return self.elements * self.size


Formula = Callable[[Inputs], Work | None]


def _parsed(text: str) -> list[Any]:
    try:
        found = json.loads(text) if text and len(text) <= _MAX_CHARS else []
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _tensor(dims: Any, dtype: Any) -> Tensor | None:
    if not isinstance(dims, list) or not isinstance(dtype, str) or not all(type(n) is int and n >= 0 for n in dims):
        return None
    # Complex numbers take other operations, and elements of 4 bits are packed.
    size = None if "complex" in dtype.lower() or "float4" in dtype.lower() else element_bytes(dtype)
    return None if size is None else Tensor(tuple(dims), dtype, size)


def number_format(tensor: Tensor) -> str:
    text = tensor.dtype.lower()
    if "float8" in text:
        return "fp8"
    if not any(word in text for word in ("float", "double", "half")):
        return "int8" if tensor.size == 1 else "fp32"
    return {2: "fp16", 4: "fp32", 8: "fp64"}.get(tensor.size, "fp32")


def sum_bytes(*tensors: Tensor | None) -> int:
    return sum(tensor.bytes for tensor in tensors if tensor is not None)
