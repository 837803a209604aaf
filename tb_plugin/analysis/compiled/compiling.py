"""Compilation times, guard checks and cold calls."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from tb_plugin.analysis.backward import backward_operators
from tb_plugin.analysis.compiled.regions import has_regions, regions_of
from tb_plugin.analysis.forest import Spans
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import rows_in
from tb_plugin.analysis.range_patterns import GRAPH, REGION, name_matches, search_pattern
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import places_of, side_by_side, sum_by
from tb_plugin.lib.intervals import EMPTY, Ranges, join, measure_within, subtract, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost_at, nest


class Compilations(msgspec.Struct, frozen=True, eq=False):
    """Time ranges in which a thread compiles, sorted by time. Nested compilations are excluded."""

    row: Int64
    region: Int32
    """Index into ``names`` of the compiled region (-1 = unknown)."""
    names: tuple[str, ...]
    """Names of compiled regions, such as ``3/0``: a function number and a compilation number."""

    def repeats(self) -> Bool:
        return np.array([not name.endswith("/0") for name in self.names], np.bool_)


class Guards(msgspec.Struct, frozen=True, eq=False):
    """Guard checks sorted by time."""

    row: Int64
    region: Int32
    """Index of the compiled call that followed the guard check (-1 = none)."""
    compilation: Int32
    """Index of the compilation that followed, because no compiled code matched (-1 = none)."""


def spans_of(trace: TraceTable, row: Int64) -> Spans:
    return Spans(trace.track[row], trace.start_ns[row], trace.ends(row))


@cached_by_argument
def compilations_of(trace: TraceTable) -> Compilations:
    row = rows_in(trace, Cause.COMPILATION) if has_regions(trace) else np.empty(0, np.int64)
    parent = nest(trace.track[row], trace.start_ns[row], trace.ends(row)).parent
    row = row[parent == MISSING]
    said, names = _compile_ranges(trace)
    spans = spans_of(trace, row)
    nested_in = np.full(len(row), MISSING, np.int32)
    of = innermost_at(spans.track, spans.start, spans.end, nested_in, trace.track[said], trace.start_ns[said])
    region = np.full(len(row), MISSING, np.int32)
    known = np.flatnonzero(of != MISSING)[::-1]  # the first entry of each is written last
    number = {name: at for at, name in enumerate(dict.fromkeys(names))}
    region[of[known]] = np.array([number[names[at]] for at in known.tolist()], np.int32)
    return Compilations(row, region, tuple(number))


def _compile_ranges(trace: TraceTable) -> tuple[Int64, list[str]]:
    pattern = trace.recorder.compiled.compile_id
    if not pattern:
        return np.empty(0, np.int64), []
    rows = np.flatnonzero(of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION) & name_matches(trace, pattern))
    found = {name: re.search(pattern, trace.strings[name]) for name in np.unique(trace.name[rows]).tolist()}
    # A restarted attempt belongs to the same compilation.
    texts = {name: match[1].partition("_")[0] for name, match in found.items() if match}
    return rows, [texts[name] for name in trace.name[rows].tolist()]


@cached_by_argument
def guards_of(trace: TraceTable) -> Guards:
    pattern = trace.recorder.compiled.lookup
    none = np.empty(0, np.int64)
    if not pattern or not has_regions(trace):
        return Guards(none, none.astype(np.int32), none.astype(np.int32))
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    row = operators[name_matches(trace, pattern)[operators]]
    regions, compiled = regions_of(trace), compilations_of(trace)
    begin, end, after, made = side_by_side(
        (trace.track[operators], trace.start_ns[operators]),
        (trace.track[operators], trace.ends(operators)),
        (trace.track[row], trace.ends(row)),
        (trace.track[compiled.row], trace.start_ns[compiled.row]),
    )
    # Next on the thread is a compiled call, a compilation, or neither.
    order = np.argsort(begin, kind="stable")
    at = np.append(order, MISSING)[np.searchsorted(begin[order], after, side="left")]
    at[at != MISSING] = np.where(trace.track[operators[at]] == trace.track[row], at, MISSING)[at != MISSING]
    region = places_of(regions.row, len(trace))[np.append(operators, MISSING)[at]]
    by_time = np.argsort(made, kind="stable")
    first = np.searchsorted(made[by_time], after, side="left")
    inside = (at != MISSING) & (first < len(made)) & (np.append(made[by_time], 0)[first] < end[at])
    compilation = np.where(inside & (region == MISSING), np.append(by_time, MISSING)[first], MISSING)
    return Guards(row, region, compilation.astype(np.int32))


@cached_by_argument
def cold_calls(trace: TraceTable) -> Bool:
    """Returns whether each compiled call compiles code or is the first call of newly compiled code."""
    regions, compiled = regions_of(trace), compilations_of(trace)
    cold = np.zeros(len(regions.row), np.bool_)
    spans = spans_of(trace, regions.row)
    inner = innermost_at(
        spans.track, spans.start, spans.end, regions.parent, trace.track[compiled.row], trace.start_ns[compiled.row]
    )
    while (inner != MISSING).any():  # up all enclosing calls, which are few
        cold[inner[inner != MISSING]] = True
        inner = np.append(regions.parent, MISSING)[inner]
    # Backward code is often compiled at its first run, so the next call is not slower.
    first = first_calls(trace)[~in_backward_pass(trace, compiled.row)]
    cold[first[first != MISSING]] = True
    return cold


@cached_by_argument
def first_calls(trace: TraceTable) -> Int64:
    """Returns, for each compilation, the index of the first call of the region that it compiled (-1 = unknown)."""
    regions, compiled = regions_of(trace), compilations_of(trace)
    names = np.array([trace.strings.find(REGION + name) for name in compiled.names], np.int64)
    name = np.append(names, MISSING)[compiled.region]
    called, ready = side_by_side(
        (trace.name[regions.row], trace.start_ns[regions.row]), (name.astype(np.int32), trace.ends(compiled.row))
    )
    order = np.argsort(called, kind="stable")
    at = np.searchsorted(called[order], ready, side="left")
    call = np.append(order, MISSING)[at]
    same = np.append(trace.name[regions.row], MISSING)[call] == name
    return np.where((call != MISSING) & (name != MISSING) & same, call, MISSING)


@cached_by_argument
def recompilations_of(trace: TraceTable) -> Int64:
    """Returns the indices of compilations of code that was compiled before.

    The backward pass of a region is compiled at its first run. Alone, it is no recompilation.
    """
    made = compilations_of(trace)
    known = np.flatnonzero(made.region != MISSING)
    again = known[made.repeats()[made.region[known]]]
    forward = known[~in_backward_pass(trace, made.row[known])]
    return again[np.isin(made.region[again], made.region[forward])]


def in_backward_pass(trace: TraceTable, row: Int64) -> Bool:
    found: Bool = backward_operators(trace).of[trace.operator[row]] != MISSING
    return found


@cached_by_argument
def wrapper_times(trace: TraceTable) -> Int64:
    """Returns the time of each compiled call without graphs, operators, nested calls, guards and compilation."""
    regions = regions_of(trace)
    row = regions.row
    own = np.zeros(len(row), np.int64)
    for track in np.unique(trace.track[row]).tolist():
        mine = np.flatnonzero(trace.track[row] == track)
        start, end = trace.start_ns[row[mine]], trace.ends(row[mine])
        own[mine] = end - start - measure_within(_covered(trace, track), start, end)
    # Self time still contains nested calls.
    inner = np.flatnonzero(regions.parent != MISSING)
    return own - sum_by(regions.parent[inner], own[inner], len(row))


def wrapper_ranges(trace: TraceTable, call: Int64) -> Ranges:
    """Returns the time ranges of wrapper overhead in these compiled calls and in compiled calls nested in them."""
    row = regions_of(trace).row[call]
    found = EMPTY
    for track in np.unique(trace.track[row]).tolist():
        mine = row[trace.track[row] == track]
        found = join(found, subtract(union(trace.start_ns[mine], trace.ends(mine)), _covered(trace, track)))
    return found


def _covered(trace: TraceTable, track: int) -> Ranges:
    rows = np.concatenate((_busy(trace), compilations_of(trace).row))
    mine = rows[trace.track[rows] == track]
    return union(trace.start_ns[mine], trace.ends(mine))


@cached_by_argument
def _busy(trace: TraceTable) -> Int64:
    between = name_matches(trace, f"^{re.escape(REGION)}") | name_matches(trace, trace.recorder.compiled.wrapping)
    operators = (trace.kind == EventKind.OPERATOR) & ~between
    host = of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION)
    return np.flatnonzero(operators | (name_matches(trace, search_pattern(GRAPH)) & host))
