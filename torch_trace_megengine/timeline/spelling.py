"""MegEngine's notation of shapes, types and numbers."""

from __future__ import annotations

import json
import re

from tb_plugin.model.trace.schema import MISSING

_BITS = re.compile(r"(\d+)\D*$")


def shape_json(shape: str) -> str:
    """Converts a shape such as ``{4,3,16,16}`` to JSON."""
    return f"[{', '.join(part.strip() for part in shape.strip('{}').split(',') if part.strip().isdigit())}]"


def dtype_json(dtype: str) -> str:
    return json.dumps(dtype, ensure_ascii=False)


def integer_in(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 19 else MISSING


def width_of(dtype: str) -> int:
    """Returns the size of one element of a type (``Float32``, ``Int8``, ``Bool`` ...) in bytes, or 0 if unknown."""
    if dtype == "Bool":
        return 1
    found = _BITS.search(dtype[:64])
    return int(found[1]) // 8 if found and len(found[1]) < 4 else 0
