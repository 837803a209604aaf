"""Forward and backward: which forward operator stands behind what the autograd engine does, and for which thread it works."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.grouping import group
from tb_plugin.analyses.names import BACKWARD
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.numbering import places_of
from tb_plugin.trace.schema import MISSING, EventKind
from tb_plugin.trace.table import TraceTable
from tb_plugin.trace.tree import inherit

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
