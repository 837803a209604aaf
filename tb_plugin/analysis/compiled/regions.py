"""Calls of compiled code, with their graphs and origins.

The first Python call inside a compiled call is the compiled function. A call of a compiled wrapper counts as a call
of the wrapped module.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.backward import forward_operators
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.host_calls import Called
from tb_plugin.analysis.metrics import CHOSEN, SUM, define
from tb_plugin.analysis.range_patterns import GRAPH, REGION, WRAPPER, module_label, name_matches
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import side_by_side
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost_at, nest


class Regions(msgspec.Struct, frozen=True, eq=False):
    """Calls of compiled code by time. ``parent`` is the enclosing call, names are string ids; -1 = none."""

    row: Int64
    parent: Int32
    code: Int32
    """Name of the compiled function, which is the first Python call inside the call."""
    graph: Int32
    """Name of the first graph that the compiled call itself runs."""
    backward: Int32
    """Name of the first graph in the backward pass of the compiled call's operators."""


@cached_by_argument
def has_regions(trace: TraceTable) -> bool:
    host = of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION)
    return bool((name_matches(trace, f"^{re.escape(REGION)}") & host).any())


@cached_by_argument
def regions_of(trace: TraceTable) -> Regions:
    row = np.flatnonzero(_ranges_named(trace, lambda text: text.startswith(REGION)))
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
        return innermost_at(track, start, end, parent, trace.track[rows], trace.start_ns[rows])

    graphs = np.flatnonzero(_ranges_named(trace, lambda text: GRAPH.match(text) is not None))
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


def _ranges_named(trace: TraceTable, fits: Callable[[str], bool]) -> Bool:
    found: Bool = trace.strings.where(fits)[trace.name] & of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION)
    return found


def _first(trace: TraceTable, owner: Int32, rows: Int64, count: int) -> Int32:
    found = np.full(count, MISSING, np.int32)
    known = owner != MISSING
    found[owner[known][::-1]] = trace.name[rows[known]][::-1]
    return found


def wrapped_calls(trace: TraceTable, row: Int64, parent: Int32) -> Int32:
    """Returns, for each module call, the index in ``row`` of the compiled wrapper around it (-1 = none)."""
    wrapper = trace.strings.where(lambda text: WRAPPER.match(module_label(text)) is not None)[trace.name[row]]
    found = np.where((parent != MISSING) & np.append(wrapper, False)[parent], parent, MISSING).astype(np.int32)
    if (found == MISSING).all():
        return found
    regions = regions_of(trace)
    track, start = trace.track[regions.row], trace.start_ns[regions.row]
    open_around = innermost_at(
        track, start, trace.ends(regions.row), regions.parent, trace.track[row], trace.start_ns[row]
    )
    since = np.append(start, np.iinfo(np.int64).min)[open_around]
    return np.where(since >= trace.start_ns[row][found], MISSING, found).astype(np.int32)


REGIONS = define(
    "",
    "code",
    {
        "region": ("Region", "Compiled region: function number / compilation number."),
        "compiled_code": ("Compiled code", "Compiled function, or the module of a wrapper."),
        "region_modules": ("Modules", "Modules that ran the region directly."),
        "graph": ("Graph", "Key of the first compiled graph of the region."),
        "backward_graph": ("Backward graph", "Key of the first compiled graph in the region's backward pass."),
    },
)

BACKWARD_HOST = define(
    CHOSEN,
    "ns",
    {
        "backward_host_total_ns": (
            "Backward host",
            "Host time of backward operators matched to the module and its children.",
            SUM,
        )
    },
)


def called_of(trace: TraceTable, row: Int64) -> Called:
    """Returns the calls of compiled code, both in the trace (as rows) and in graph captures."""
    scopes = origins_of(trace).scopes
    is_visible = np.zeros(0, np.bool_)
    if len(scopes):
        named = trace.strings.where(lambda text: text.startswith(REGION))[scopes.name]
        is_visible = named & of_kind(scopes.kind, EventKind.OPERATOR, EventKind.ANNOTATION)
    return Called(row, trace.name[row].astype(np.int64), is_visible, scopes.name.astype(np.int64))
