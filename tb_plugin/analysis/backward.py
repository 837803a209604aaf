"""Forward and backward: which forward operator stands behind what the autograd engine does, and for which thread it works."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.range_patterns import ADDS_GRADIENT, BACKWARD, backward_label
from tb_plugin.lib.groupby import group, places_of
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.links import Autograd, forward_by_sequence
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]


def forward_operators(trace: TraceTable, operators: Int64) -> Int32:
    """Returns for every row the forward operator of it or of the nearest operator around it, -1 = none."""
    position = places_of(operators, len(trace))
    forward = np.full(len(trace) + 1, MISSING, np.int32)
    forward[operators] = inherit(trace.forward[operators], position[trace.operator[operators]])
    return forward


def forward_behind(forward: Int32, operator: Int32) -> Int32:
    """Returns the forward operator behind work of these operators (-1 = none); ``forward`` is of ``forward_operators``."""
    return np.where(operator == MISSING, MISSING, forward[operator]).astype(np.int32)


def in_backward(trace: TraceTable, operators: Int64, forward: Int32) -> Bool:
    """Returns for every row, and one more for -1, whether it is an operator of the backward pass or inside one."""
    named = trace.strings.where(lambda text: BACKWARD.match(text) is not None)[trace.name[operators]]
    own = np.where(named | (forward[operators] != MISSING), 0, MISSING).astype(np.int32)
    flags = np.zeros(len(trace) + 1, np.bool_)
    flags[operators] = inherit(own, places_of(operators, len(trace))[trace.operator[operators]]) != MISSING
    return flags


def backward_roots(trace: TraceTable, operators: Int64, forward: Int32) -> Int64:
    """Returns the backward operators with a forward operator that stand in no other such operator."""
    linked = operators[forward[operators] != MISSING]
    above = trace.operator[linked]
    roots: Int64 = linked[(above == MISSING) | (forward[above] == MISSING)]
    return roots


@remembered
def works_for(trace: TraceTable) -> Int32:
    """Returns for each track the thread that waits while it works: itself, but for threads of the autograd engine.

    A thread of the engine runs backward operators most of whose forward operators ran on another thread, always the same
    one in practice: the thread that called ``backward()`` and waits for it.
    """
    serves = np.arange(len(trace.tracks), dtype=np.int32)
    linked = np.flatnonzero((trace.kind == EventKind.OPERATOR) & (trace.forward != MISSING))
    if not len(linked):
        return serves
    own, other = trace.track[linked], trace.track[trace.forward[linked]]
    pairs = group(own, other)
    count, own, other = pairs.count(), own[pairs.first], other[pairs.first]
    # The commonest of each thread is written last; of equally common ones the thread that came first.
    order = np.lexsort((-other, count))
    serves[own[order]] = other[order]
    # Who serves a thread that serves another serves nobody: no two may serve each other.
    return np.where(serves[serves] == serves, serves, np.arange(len(serves), dtype=np.int32))


class Tie(IntEnum):
    """How the forward operator of a backward operator is known."""

    NONE = 0
    ARROW = 1
    """A recorded arrow alone says it."""
    SEQUENCE = 2
    """They share an autograd sequence number; an arrow, where there is one, says the same."""
    PARENT = 3
    """It runs inside a backward operator that is tied."""
    BEFORE = 4
    """It adds the gradient that the tied operator made that the engine ran directly before it."""


@dataclass(frozen=True, eq=False)
class BackwardOperators:
    """The calls of backward operators of a trace, by time: what the autograd engine runs for one node of its graph each.

    The engine's call and the call of the function of the same name inside of it are one.
    """

    row: Int64
    within: Int32
    """Position of the backward operator around each, -1 = none: a backward pass inside of a backward pass."""
    name: Int32
    """Number of the name in ``names``."""
    names: pa.Array
    forward: Int32
    """Row of the forward operator, -1 = not known."""
    tie: npt.NDArray[np.uint8]
    """Tie of each."""
    adds: Bool
    """Whether it adds a gradient to that of a parameter."""
    function: Int64
    """Row of the call of the function inside of the engine's call, where both are recorded; around it hooks run."""
    of: Int32
    """For each row that is an operator the position of the innermost one that it is or stands in; one more for -1."""


@remembered
def backward_operators(trace: TraceTable) -> BackwardOperators:
    """Returns the backward operators of a trace, each with its forward operator and how that is known.

    Backward operators are operators named as the engine names them, and, where none of them is around, operators with a
    forward operator.
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


def _labels(trace: TraceTable, rows: Int64) -> tuple[pa.Array, Int32]:
    """The distinct names of these backward operators without the engine's prefixes, and the number of each row's."""
    ids = np.unique(trace.name[rows])
    texts = [backward_label(text) for text in trace.strings.take(ids).to_pylist()]
    encoded = pa.array(texts, pa.large_string()).dictionary_encode()
    return encoded.dictionary, encoded.indices.to_numpy().astype(np.int32)[np.searchsorted(ids, trace.name[rows])]


def _ties(trace: TraceTable, operators: Int64, row: Int64, of: Int32) -> tuple[Int32, npt.NDArray[np.uint8]]:
    """The recorded forward operator of each backward operator: its own, else the first of its parts that has one."""
    linked = operators[trace.forward[operators] != MISSING]
    known = trace.operators
    kept = trace.kind[known.row] == EventKind.OPERATOR
    autograd = Autograd(known.row[kept].astype(np.int64), known.sequence[kept], known.forward_thread[kept])
    counted = np.full(len(trace), MISSING, np.int32)
    backward, source = forward_by_sequence(autograd, trace.track)
    counted[backward] = source
    # Parts are in order of time: of several the first is written last.
    linked = linked[of[linked] != MISSING][::-1]
    forward = np.full(len(row), MISSING, np.int32)
    tie = np.zeros(len(row), np.uint8)
    forward[of[linked]] = trace.forward[linked]
    tie[of[linked]] = np.where(counted[linked] == trace.forward[linked], Tie.SEQUENCE, Tie.ARROW)
    return forward, tie


def _tie_to_parent(forward: Int32, tie: npt.NDArray[np.uint8], within: Int32) -> None:
    """Ties what is not tied to the forward operator of what it runs in."""
    found = inherit(forward, within)
    gained = (forward == MISSING) & (found != MISSING)
    forward[gained], tie[gained] = found[gained], Tie.PARENT


def _tie_to_before(track: Int32, within: Int32, adds: Bool, forward: Int32, tie: npt.NDArray[np.uint8]) -> None:
    """Ties what adds a gradient to what the engine ran before it on the thread, in the same backward pass.

    The engine runs it directly after the operator that made the gradient: nothing has a higher priority.
    """
    order = np.lexsort((np.arange(len(track)), within, track))
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (np.diff(track[order]) != 0) | (np.diff(within[order]) != 0)
    place = np.arange(len(order))
    last = np.maximum.accumulate(np.where(~adds[order] | begins, place, 0)) if len(order) else place
    source = order[last]
    gained = (forward[order] == MISSING) & adds[order] & ~adds[source] & (forward[source] != MISSING)
    forward[order[gained]] = forward[source[gained]]
    tie[order[gained]] = Tie.BEFORE
