"""Name, bytes and process group of recorded collectives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tb_plugin.analysis.bus_bandwidth import has_larger_side
from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.analysis.dtypes import element_bytes
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable

_MOST_ELEMENTS = 1 << 50


def reported_collectives(trace: TraceTable, rows: Int64) -> tuple[Int64, Int64, Int64]:
    """Returns the name (string id), bytes and process group (string id) of each collective; -1 = unknown.

    These values are recorded with the kernel or with an operator that encloses its launch.
    """
    args = trace.collectives
    place = np.full(len(trace) + 1, MISSING, np.int64)
    place[args.row] = np.arange(len(args.row))
    at, found = rows, place[rows]
    while ((found == MISSING) & (at != MISSING)).any():
        at = enclosing_operator(trace, at)
        found = np.where(found == MISSING, place[at], found)
    name, dtype, group, inside, outside = (
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
    return what, np.where(known, elements * size[dtype], MISSING), group


def enclosing_operator(trace: TraceTable, rows: Int64) -> Int64:
    """Returns the row of the operator that encloses each row or its launch (-1 = none)."""
    found: Int64 = np.append(trace.operator, MISSING)[rows].astype(np.int64)
    return found


def matching_names(trace: TraceTable, names: Int64, test: Callable[[str], bool]) -> Bool:
    """Returns, for each string id, whether its text satisfies ``test``. Each distinct text is tested once."""
    unique, of = np.unique(names, return_inverse=True)
    found: Bool = np.array([test(trace.strings[each]) for each in unique.tolist()], np.bool_)[of.ravel()]
    return found
