"""Backward operators, their forward operators, and autograd threads."""

from __future__ import annotations

from enum import IntEnum

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.range_patterns import ADDS_GRADIENT, BACKWARD, backward_label
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import group, places_of
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.links import Autograd, forward_by_sequence
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit


def forward_operators(trace: TraceTable, operators: Int64) -> Int32:
    """Returns the forward operator of each row, or of its nearest linked enclosing operator (-1 = none)."""
    position = places_of(operators, len(trace))
    forward = np.full(len(trace) + 1, MISSING, np.int32)
    forward[operators] = inherit(trace.forward[operators], position[trace.operator[operators]])
    return forward


def forward_behind(forward: Int32, operator: Int32) -> Int32:
    """Returns the forward operator of each operator (-1 = none). ``forward`` is the result of ``forward_operators``."""
    return np.where(operator == MISSING, MISSING, forward[operator]).astype(np.int32)


def in_backward(trace: TraceTable, operators: Int64, forward: Int32) -> Bool:
    """Returns whether each row is in the backward pass. The mask has an extra entry for row -1."""
    named = trace.strings.where(lambda text: BACKWARD.match(text) is not None)[trace.name[operators]]
    own = np.where(named | (forward[operators] != MISSING), 0, MISSING).astype(np.int32)
    flags = np.zeros(len(trace) + 1, np.bool_)
    flags[operators] = inherit(own, places_of(operators, len(trace))[trace.operator[operators]]) != MISSING
    return flags


def backward_roots(trace: TraceTable, operators: Int64, forward: Int32) -> Int64:
    """Returns the top-level backward operators that have a forward operator."""
    linked = operators[forward[operators] != MISSING]
    above = trace.operator[linked]
    roots: Int64 = linked[(above == MISSING) | (forward[above] == MISSING)]
    return roots


@cached_by_argument
def works_for(trace: TraceTable) -> Int32:
    """Returns, for each autograd thread, the thread that waits for it in ``backward()``. For other threads, returns
    the thread itself.

    The waiting thread is assumed to be the thread that ran most of the forward operators.
    """
    serves = np.arange(len(trace.tracks), dtype=np.int32)
    linked = np.flatnonzero((trace.kind == EventKind.OPERATOR) & (trace.forward != MISSING))
    if not len(linked):
        return serves
    own, other = trace.track[linked], trace.track[trace.forward[linked]]
    pairs = group(own, other)
    count, own, other = pairs.count(), own[pairs.first], other[pairs.first]
    # The most frequent thread is written last; ties: the first thread.
    order = np.lexsort((-other, count))
    serves[own[order]] = other[order]
    # No two threads may work for each other: a thread that works for another one has no helpers.
    return np.where(serves[serves] == serves, serves, np.arange(len(serves), dtype=np.int32))


class Tie(IntEnum):
    """How a backward operator was matched to its forward operator."""

    NONE = 0
    ARROW = 1
    """The only evidence is an arrow in the trace."""
    SEQUENCE = 2
    """Both operators have the same autograd sequence number. No arrow contradicts the match."""
    PARENT = 3
    """The enclosing backward operator is matched."""
    BEFORE = 4
    """The operator that runs directly before an accumulation, and computes its gradient, is matched."""


class BackwardOperators(msgspec.Struct, frozen=True, eq=False):
    """Calls of backward operators by time, one for each autograd node."""

    row: Int64
    within: Int32
    """Index of the enclosing backward operator (-1 = none), in nested backward passes."""
    name: Int32
    names: pa.Array
    forward: Int32
    """Row of the forward operator (-1 = unknown)."""
    tie: npt.NDArray[np.uint8]
    adds: Bool
    """Whether the operator accumulates a gradient into a parameter."""
    function: Int64
    """Row of the function call inside the engine's call, if recorded. Hooks run outside of it."""
    of: Int32
    """For each trace row (and -1), the index of the innermost enclosing backward operator (-1 = none)."""


@cached_by_argument
def backward_operators(trace: TraceTable) -> BackwardOperators:
    """Returns the backward operators, their forward operators, and how each pair was matched.

    Operators whose names show that the autograd engine calls them are backward operators. Other operators are
    backward operators if they have a forward operator and are not inside such an operator.
    """
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    parent = places_of(operators, len(trace))[trace.operator[operators]]
    named = trace.strings.where(lambda text: BACKWARD.match(text) is not None)[trace.name[operators]]
    own = trace.forward[operators] != MISSING
    around = np.append(inherit(np.where(named, 0, MISSING).astype(np.int32), parent), np.int32(MISSING))
    candidate = named | (own & (around[parent] == MISSING))
    names, label = _labels(trace, operators[candidate])
    labels = np.full(len(operators) + 1, MISSING, np.int32)
    labels[:-1][candidate] = label
    inner = np.append(inherit(labels[:-1], parent), np.int32(MISSING))
    begins = np.flatnonzero(candidate & (inner[parent] != labels[:-1]))
    positions = np.full(len(operators), MISSING, np.int32)
    positions[begins] = np.arange(len(begins))
    inside = np.append(inherit(positions, parent), np.int32(MISSING))
    of = np.full(len(trace) + 1, MISSING, np.int32)
    of[operators] = inside[:-1]
    row, within = operators[begins], inside[parent[begins]]
    forward, tie = _ties(trace, operators, row, of)
    function, calls = row.copy(), np.flatnonzero(candidate & (inner[parent] == labels[:-1]))[::-1]
    function[inside[calls]] = operators[calls]
    label = labels[begins]
    adds = label == names.index(pa.scalar(ADDS_GRADIENT, names.type)).as_py()
    _tie_to_before(trace.track[row], within, adds, forward, tie)
    _tie_to_parent(forward, tie, within)
    return BackwardOperators(row, within, label, names, forward, tie, adds, function, of)


def forward_operator(trace: TraceTable, row: int) -> int:
    """Returns the forward operator of an operator, a runtime call or device work in the backward pass (-1 = none)."""
    operator = row if trace.kind[row] == EventKind.OPERATOR else int(trace.operator[row])
    if operator == MISSING:
        return MISSING
    every = backward_operators(trace)
    at = int(every.of[operator])
    return int(every.forward[at] if at != MISSING else trace.forward[operator])


def _labels(trace: TraceTable, rows: Int64) -> tuple[pa.Array, Int32]:
    ids = np.unique(trace.name[rows])
    texts = [backward_label(text) for text in trace.strings.take(ids).to_pylist()]
    encoded = pa.array(texts, pa.large_string()).dictionary_encode()
    return encoded.dictionary, encoded.indices.to_numpy().astype(np.int32)[np.searchsorted(ids, trace.name[rows])]


def _ties(trace: TraceTable, operators: Int64, row: Int64, of: Int32) -> tuple[Int32, npt.NDArray[np.uint8]]:
    linked = operators[trace.forward[operators] != MISSING]
    known = trace.operators
    kept = trace.kind[known.row] == EventKind.OPERATOR
    autograd = Autograd(known.row[kept].astype(np.int64), known.sequence[kept], known.forward_thread[kept])
    counted = np.full(len(trace), MISSING, np.int32)
    backward, source = forward_by_sequence(autograd, trace.track)
    counted[backward] = source
    # Parts are in order of time, so the first is written last.
    linked = linked[of[linked] != MISSING][::-1]
    forward = np.full(len(row), MISSING, np.int32)
    tie = np.zeros(len(row), np.uint8)
    forward[of[linked]] = trace.forward[linked]
    tie[of[linked]] = np.where(counted[linked] == trace.forward[linked], Tie.SEQUENCE, Tie.ARROW)
    return forward, tie


def _tie_to_parent(forward: Int32, tie: npt.NDArray[np.uint8], within: Int32) -> None:
    found = inherit(forward, within)
    gained = (forward == MISSING) & (found != MISSING)
    forward[gained], tie[gained] = found[gained], Tie.PARENT


def _tie_to_before(track: Int32, within: Int32, adds: Bool, forward: Int32, tie: npt.NDArray[np.uint8]) -> None:
    """Matches each accumulation, which has the highest priority, to the operator directly before it."""
    order = np.lexsort((np.arange(len(track)), within, track))
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (np.diff(track[order]) != 0) | (np.diff(within[order]) != 0)
    place = np.arange(len(order))
    last = np.maximum.accumulate(np.where(~adds[order] | begins, place, 0)) if len(order) else place
    source = order[last]
    gained = (forward[order] == MISSING) & adds[order] & ~adds[source] & (forward[source] != MISSING)
    forward[order[gained]] = forward[source[gained]]
    tie[order[gained]] = Tie.BEFORE
