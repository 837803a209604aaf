"""Compiled code: the regions of it that ran, the graphs that they called, and what the trace tells of where they come from.

Nothing is guessed: the code of a region is the first Python call recorded in it, and what a wrapper stands for is the module
that it calls outside of any compiled code; a module called by compiled code may be a part of what was compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.backward import forward_operators
from tb_plugin.analysis.range_patterns import GRAPH, REGION, WRAPPER, module_label, name_matches
from tb_plugin.lib.groupby import side_by_side
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost, nest

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Regions:
    """Calls of compiled code by time: rows; ``parent`` is a position among them, the others are string ids; -1 = none."""

    row: Int64
    parent: Int32
    code: Int32
    """Name of the first Python call that began in it: the function that was compiled."""
    graph: Int32
    """Name of the first graph that it called itself."""
    backward: Int32
    """Name of the first graph that ran in the backward pass of its operators."""


@remembered
def has_regions(trace: TraceTable) -> bool:
    """Returns whether any compiled code ran."""
    host = of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION)
    return bool((name_matches(trace, f"^{re.escape(REGION)}") & host).any())


@remembered
def regions_of(trace: TraceTable) -> Regions:
    """Returns the calls of compiled code of a trace, whichever steps are chosen."""
    row = np.flatnonzero(_named(trace, lambda text: text.startswith(REGION)))
    track, start, end = trace.track[row], trace.start_ns[row], trace.ends(row)
    parent = nest(track, start, end).parent
    python = np.flatnonzero(trace.kind == EventKind.PYTHON)
    begins, opens, closes = side_by_side((trace.track[python], trace.start_ns[python]), (track, start), (track, end))
    order = np.argsort(begins, kind="stable")
    at = np.searchsorted(begins[order], opens, side="left")
    first = np.append(order, 0)[at]
    inside = (at < len(python)) & (np.append(begins, 0)[first] < closes)
    code = np.where(inside, np.append(trace.name[python], MISSING)[first], MISSING).astype(np.int32)

    def around(rows: npt.NDArray[np.integer]) -> Int32:
        return innermost(track, start, end, parent, trace.track[rows], trace.start_ns[rows])

    graphs = np.flatnonzero(_named(trace, lambda text: GRAPH.match(text) is not None))
    forward = forward_operators(trace, np.flatnonzero(trace.kind == EventKind.OPERATOR))[trace.operator[graphs]]
    later = forward != MISSING
    called_by, made_by = around(graphs[~later]), around(forward[later])
    return Regions(
        row=row,
        parent=parent,
        code=code,
        graph=_first(trace, called_by, graphs[~later], len(row)),
        backward=_first(trace, made_by, graphs[later], len(row)),
    )


def _named(trace: TraceTable, fits: Callable[[str], bool]) -> Bool:
    """Host ranges with such a name: old and new recorders differ in what kind they give them."""
    found: Bool = trace.strings.where(fits)[trace.name] & of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION)
    return found


def _first(trace: TraceTable, owner: Int32, rows: Int64, count: int) -> Int32:
    """The name of the first of each owner's rows, which are in order of time."""
    found = np.full(count, MISSING, np.int32)
    known = owner != MISSING
    found[owner[known][::-1]] = trace.name[rows[known]][::-1]
    return found


def wrapped_calls(trace: TraceTable, row: Int64, parent: Int32) -> Int32:
    """Returns for each of these module calls, by time, the wrapper's call that it was compiled for; -1: none.

    A wrapper calls the module that it stands for before any compiled code begins. ``parent`` is a position among ``row``.
    """
    wrapper = trace.strings.where(lambda text: WRAPPER.match(module_label(text)) is not None)[trace.name[row]]
    found = np.where((parent != MISSING) & np.append(wrapper, False)[parent], parent, MISSING).astype(np.int32)
    if (found == MISSING).all():
        return found
    regions = regions_of(trace)
    track, start = trace.track[regions.row], trace.start_ns[regions.row]
    open_around = innermost(
        track, start, trace.ends(regions.row), regions.parent, trace.track[row], trace.start_ns[row]
    )
    since = np.append(start, np.iinfo(np.int64).min)[open_around]
    return np.where(since >= trace.start_ns[row][found], MISSING, found).astype(np.int32)
