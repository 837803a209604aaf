"""What compiling took, what the checks of guards took and said, and which calls of compiled code are the first after it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.backward import backward_operators
from tb_plugin.analysis.compiled.regions import has_regions, regions_of
from tb_plugin.analysis.forest import Spans
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import rows_in
from tb_plugin.analysis.range_patterns import GRAPH, REGION, matched, name_matches
from tb_plugin.lib.groupby import places_of, side_by_side, sum_by
from tb_plugin.lib.intervals import EMPTY, Ranges, join, measure_within, subtract, union
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost, nest

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Compilations:
    """Stretches of time in which a thread compiled, by time: the outermost ranges that say so."""

    row: Int64
    region: Int32
    """Number of the region that was compiled, in ``names``; -1: the trace does not say."""
    names: tuple[str, ...]
    """Numbers of the function and of its compilation, as the regions have them."""

    def repeats(self) -> Bool:
        """Returns which of the names are those of a function that had been compiled before."""
        return np.array([not name.endswith("/0") for name in self.names], np.bool_)


@dataclass(frozen=True, eq=False)
class Guards:
    """Checks of guards by time: rows, and what came of each."""

    row: Int64
    region: Int32
    """Position among the regions' calls of the call that it led to, -1: none."""
    compilation: Int32
    """Position of the compilation that it led to, because nothing that was compiled fitted; -1: none."""


def spans_of(trace: TraceTable, row: Int64) -> Spans:
    """Returns where rows of the host stand."""
    return Spans(trace.track[row], trace.start_ns[row], trace.ends(row))


@remembered
def compilations_of(trace: TraceTable) -> Compilations:
    """Returns what was compiled in a trace with compiled code, whichever steps are chosen."""
    row = rows_in(trace, Cause.COMPILATION) if has_regions(trace) else np.empty(0, np.int64)
    parent = nest(trace.track[row], trace.start_ns[row], trace.ends(row)).parent
    row = row[parent == MISSING]
    said, names = _stated(trace)
    spans = spans_of(trace, row)
    apart = np.full(len(row), MISSING, np.int32)
    of = innermost(spans.track, spans.start, spans.end, apart, trace.track[said], trace.start_ns[said])
    region = np.full(len(row), MISSING, np.int32)
    known = np.flatnonzero(of != MISSING)[::-1]  # the first that is said in each is written last
    number = {name: at for at, name in enumerate(dict.fromkeys(names))}
    region[of[known]] = np.array([number[names[at]] for at in known.tolist()], np.int32)
    return Compilations(row, region, tuple(number))


def _stated(trace: TraceTable) -> tuple[Int64, list[str]]:
    """Ranges that say what is compiled, by time, and what each says."""
    pattern = trace.recorder.compiled.compile_id
    if not pattern:
        return np.empty(0, np.int64), []
    rows = np.flatnonzero(of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION) & name_matches(trace, pattern))
    found = {name: re.search(pattern, trace.strings[name]) for name in np.unique(trace.name[rows]).tolist()}
    # An attempt that was begun anew is of the same compilation.
    texts = {name: match[1].partition("_")[0] for name, match in found.items() if match}
    return rows, [texts[name] for name in trace.name[rows].tolist()]


@remembered
def guards_of(trace: TraceTable) -> Guards:
    """Returns the checks of guards, and whether compiled code was called or made after each."""
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
    # What the thread does next is a call of compiled code, or holds a compilation, or the check led to neither.
    order = np.argsort(begin, kind="stable")
    at = np.append(order, MISSING)[np.searchsorted(begin[order], after, side="left")]
    at[at != MISSING] = np.where(trace.track[operators[at]] == trace.track[row], at, MISSING)[at != MISSING]
    region = places_of(regions.row, len(trace))[np.append(operators, MISSING)[at]]
    by_time = np.argsort(made, kind="stable")
    first = np.searchsorted(made[by_time], after, side="left")
    inside = (at != MISSING) & (first < len(made)) & (np.append(made[by_time], 0)[first] < end[at])
    compilation = np.where(inside & (region == MISSING), np.append(by_time, MISSING)[first], MISSING)
    return Guards(row, region, compilation.astype(np.int32))


@remembered
def cold_calls(trace: TraceTable) -> Bool:
    """Returns which calls of compiled code compile something, or are the first of their region after it was compiled."""
    regions, compiled = regions_of(trace), compilations_of(trace)
    cold = np.zeros(len(regions.row), np.bool_)
    spans = spans_of(trace, regions.row)
    inner = innermost(
        spans.track,
        spans.start,
        spans.end,
        regions.parent,
        trace.track[compiled.row],
        trace.start_ns[compiled.row],
    )
    while (inner != MISSING).any():  # up all calls around, which are few
        cold[inner[inner != MISSING]] = True
        inner = np.append(regions.parent, MISSING)[inner]
    # The backward pass is often compiled when it first runs: the next call is none the slower for it.
    first = first_calls(trace)[~in_backward_pass(trace, compiled.row)]
    cold[first[first != MISSING]] = True
    return cold


@remembered
def first_calls(trace: TraceTable) -> Int64:
    """Returns for each compilation the first call of its region after it; -1: none is known."""
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


def in_backward_pass(trace: TraceTable, row: Int64) -> Bool:
    """Returns which rows of the host stand in a backward operator."""
    found: Bool = backward_operators(trace).of[trace.operator[row]] != MISSING
    return found


@remembered
def wrapper_times(trace: TraceTable) -> Int64:
    """Returns for each call of compiled code how long it is in none of what it calls.

    That is its time outside of graphs, operators, other calls of compiled code, checks of guards, and compilation.
    """
    regions = regions_of(trace)
    row = regions.row
    own = np.zeros(len(row), np.int64)
    for track in np.unique(trace.track[row]).tolist():
        mine = np.flatnonzero(trace.track[row] == track)
        start, end = trace.start_ns[row[mine]], trace.ends(row[mine])
        own[mine] = end - start - measure_within(_covered(trace, track), start, end)
    # A call's own time still holds that of the calls in it.
    inner = np.flatnonzero(regions.parent != MISSING)
    return own - sum_by(regions.parent[inner], own[inner], len(row))


def wrapper_ranges(trace: TraceTable, call: Int64) -> Ranges:
    """Returns when these calls, and all calls in them, are in none of what they call; times as of ``wrapper_times``."""
    row = regions_of(trace).row[call]
    found = EMPTY
    for track in np.unique(trace.track[row]).tolist():
        mine = row[trace.track[row] == track]
        found = join(found, subtract(union(trace.start_ns[mine], trace.ends(mine)), _covered(trace, track)))
    return found


def _covered(trace: TraceTable, track: int) -> Ranges:
    """When a thread is in what compiled code calls, has guards checked, or compiles."""
    rows = np.concatenate((_busy(trace), compilations_of(trace).row))
    mine = rows[trace.track[rows] == track]
    return union(trace.start_ns[mine], trace.ends(mine))


@remembered
def _busy(trace: TraceTable) -> Int64:
    """Operators and graphs, other than compiled code itself and what stands between it and its graphs."""
    between = name_matches(trace, f"^{re.escape(REGION)}") | name_matches(trace, trace.recorder.compiled.wrapping)
    operators = (trace.kind == EventKind.OPERATOR) & ~between
    host = of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION)
    return np.flatnonzero(operators | (name_matches(trace, matched(GRAPH)) & host))
