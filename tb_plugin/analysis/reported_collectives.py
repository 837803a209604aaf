"""Name, bytes and process group of recorded collectives."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tb_plugin.analysis.bus_bandwidth import has_larger_side
from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.analysis.dtypes import element_bytes
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import group, places_of
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable

_MOST_ELEMENTS = 1 << 50


def reported_collectives(trace: TraceTable, rows: Int64) -> tuple[Int64, Int64, Int64]:
    """Returns the name (string id), bytes and process group (string id) of each collective; -1 = unknown.

    These values are recorded with the kernel or with an operator that encloses its launch. Work of a process group on
    the CPU has no such values: its bytes are those of its inputs.
    """
    args = trace.collectives
    place = np.full(len(trace) + 1, MISSING, np.int64)
    place[args.row] = np.arange(len(args.row))
    at, found = rows, place[rows]
    while ((found == MISSING) & (at != MISSING)).any():
        at = enclosing_operator(trace, at)
        found = np.where(found == MISSING, place[at], found)
    name, dtype, group_name, inside, outside = (
        np.append(column, MISSING)[found].astype(np.int64)
        for column in (args.name, args.dtype, args.group_name, args.in_elements, args.out_elements)
    )
    what = np.where(name != MISSING, name, trace.name[rows])
    larger = matching_names(trace, what, lambda text: has_larger_side(collective_name(text)))
    elements = np.where(larger | (inside < 0), np.maximum(inside, outside), inside)
    size = np.full(len(trace.strings) + 1, MISSING, np.int64)
    for each in np.unique(dtype[dtype != MISSING]).tolist():
        size[each] = element_bytes(trace.strings[each]) or MISSING
    known = (elements >= 0) & (elements <= _MOST_ELEMENTS) & (size[dtype] > 0)
    moved = np.where(known, elements * size[dtype], MISSING)
    unknown = moved == MISSING
    moved[unknown] = _input_bytes(trace, rows[unknown])
    return what, moved, group_name


def _input_bytes(trace: TraceTable, rows: Int64) -> Int64:
    """Returns the bytes of each row's inputs of the main dtype; -1 = unknown."""
    args = trace.operators
    place = places_of(args.row, len(trace))[rows]
    shapes, types = (np.append(column, MISSING)[place] for column in (args.shapes, args.types))
    kinds = group(shapes, types)
    found = np.full(len(kinds), MISSING, np.int64)
    pairs = zip(shapes[kinds.first].tolist(), types[kinds.first].tolist(), strict=True)
    for at, (shape, kind) in enumerate(pairs):
        if MISSING not in (shape, kind):
            dtype, elements, _ = main_input(trace.strings[shape], trace.strings[kind])
            if 0 <= elements <= _MOST_ELEMENTS:
                found[at] = elements * (element_bytes(dtype) or 0)
    return found[kinds.of]


def main_input(shapes: str, types: str) -> tuple[str, int, int]:
    """Returns the dtype with the most elements in recorded inputs, their number, and the size of the largest such tensor."""
    elements: dict[str, list[int]] = {}
    for shape, dtype in zip(json_list(shapes), json_list(types), strict=False):
        if isinstance(dtype, str) and element_bytes(dtype) is not None and _is_shape(shape):
            elements.setdefault(dtype, []).append(math.prod(shape))
    if not elements:
        return "", MISSING, MISSING
    dtype, counts = max(elements.items(), key=lambda item: sum(item[1]))
    return dtype, sum(counts), max(counts)


def json_list(text: str) -> list[Any]:
    """Parses a JSON list. Returns an empty list for any other text."""
    try:
        value = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and all(isinstance(size, int) for size in shape)


def enclosing_operator(trace: TraceTable, rows: Int64) -> Int64:
    """Returns the row of the operator that encloses each row or its launch (-1 = none)."""
    found: Int64 = np.append(trace.operator, MISSING)[rows].astype(np.int64)
    return found


def matching_names(trace: TraceTable, names: Int64, test: Callable[[str], bool]) -> Bool:
    """Returns, for each string id, whether its text satisfies ``test``. Each distinct text is tested once."""
    unique, of = np.unique(names, return_inverse=True)
    found: Bool = np.array([test(trace.strings[each]) for each in unique.tolist()], np.bool_)[of.ravel()]
    return found
