"""Captures that match only the first nodes of a graph."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.graphs.hashing import sequence_hashes
from tb_plugin.analysis.graphs.matching import FEWEST_KERNELS, FIELDS, MOST_COMPARED, hashes_of, values_match
from tb_plugin.analysis.graphs.mismatch_reasons import MUCH
from tb_plugin.analysis.graphs.replays import Graphs
from tb_plugin.analysis.graphs.scopes import INPUTS, WORK_IN, merge_equal_scopes
from tb_plugin.model.trace.graph_capture import Captured
from tb_plugin.model.trace.schema import MISSING, EventKind

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
# One column of both sides; the second side has at least as many nodes.
Sides = tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]

# Parts of one model may start alike, so a shorter common start proves too little.
LEAST_SHARE = 0.25


class Start(msgspec.Struct, frozen=True, eq=False):
    """The captures with which a graph has the longest common prefix."""

    length: int
    nodes: int
    """Number of nodes in the graph or in its capture, whichever is larger."""
    numbers: Int64


def longest_starts(graphs: Graphs, wanted: Sequence[int], told: Captured) -> dict[int, Start]:
    """Returns, for each graph, the longest common prefix with a capture. Graphs that match a capture completely are
    omitted.

    Nodes may be missing in a graph or in a capture, but not in both. Kernels match by name. A kernel without a name
    matches only if a named kernel after it matches. A prefix needs at least 8 named kernels, and at least a quarter
    of the nodes of both the graph and the capture.
    """
    sequences = told.sequences
    sizes = np.diff(sequences.begin)
    named = np.append(0, np.cumsum((sequences.kind == EventKind.KERNEL) & (sequences.name != MISSING)))
    captured = sequences.is_capture & (named[sequences.begin[1:]] - named[sequences.begin[:-1]] >= FEWEST_KERNELS)
    if not captured.any() or not len(wanted):
        return {}
    captures = _Captures(graphs, told, np.flatnonzero(captured), sizes)
    # Layers run the same work, so graphs with equal work are searched once.
    looked: dict[bytes, Start | None] = {}
    found: dict[int, Start] = {}
    for graph in wanted:
        nodes = graphs.nodes(graph)
        key = b"".join(getattr(graphs, name)[nodes].tobytes() for name in FIELDS) + bytes([captures.is_sure(graph)])
        if key not in looked:
            looked[key] = captures.longest(graph)
        start = looked[key]
        if start is not None:
            found[graph] = start
    return found


class _Captures:
    """Captures grouped by content. Captures that have the same content are compared only once."""

    def __init__(self, graphs: Graphs, told: Captured, captured: Int64, sizes: Int64) -> None:
        self._graphs, self._sequences = graphs, told.sequences
        self._columns = [(getattr(graphs, name), getattr(told.sequences, name)) for name in FIELDS]
        path = merge_equal_scopes(told.scopes, WORK_IN, INPUTS)[1]
        self._path = path[told.sequences.scope].astype(np.int64)
        begin = told.sequences.begin
        values = sequence_hashes(
            hashes_of([of for _, of in self._columns]), np.append(begin[:-1][sizes > 0], begin[-1])
        )
        of = np.empty(len(sizes), np.uint64)
        of[sizes > 0] = values
        _, first, self._content = np.unique(of[captured], return_index=True, return_inverse=True)
        self._captured, self._unlike = captured, captured[first]
        self._sizes = sizes[self._unlike]

    def is_sure(self, graph: int) -> bool:
        """Returns whether the order of a graph's nodes is known: from node ids, or because a single stream ran all
        nodes.
        """
        return bool((self._graphs.node[self._graphs.nodes(graph)] != MISSING).all() or self._graphs.is_ordered[graph])

    def longest(self, graph: int) -> Start | None:
        """Returns the captures with which a graph has the longest common prefix.

        Returns None if the prefix is too short, or if a capture matches the graph completely.
        """
        nodes = self._graphs.nodes(graph)
        size = nodes.stop - nodes.start
        if size < FEWEST_KERNELS:
            return None
        like = np.maximum(self._sizes, size) <= MUCH * np.minimum(self._sizes, size)
        places = self._sequences.begin[self._unlike][:, None] + np.arange(FEWEST_KERNELS)
        for mine, of in self._columns:
            like &= values_match(mine[nodes][:FEWEST_KERNELS], of[places]).all(axis=1)
        near = np.flatnonzero(like)
        if self._sizes[near].sum() > MOST_COMPARED:
            return None
        lengths = np.array([self._agreeing(graph, place) for place in near.tolist()], np.int64)
        if not len(near) or ((lengths == size) & (self._sizes[near] == size)).any():
            return None
        most = int(lengths.max())
        if not most:
            return None
        best = near[lengths == most]
        whole = max(size, int(self._sizes[best].min()))
        return Start(most, whole, np.sort(self._captured[np.isin(self._content, best)]))

    def _agreeing(self, graph: int, place: int) -> int:
        """Returns the number of nodes, starting from the first node, that certainly match a capture; 0 if there are
        too few.
        """
        nodes, number = self._graphs.nodes(graph), int(self._unlike[place])
        here, size = int(self._sequences.begin[number]), nodes.stop - nodes.start
        both = min(size, int(self._sizes[place]))
        sides = [(mine[nodes], of[here : here + int(self._sizes[place])]) for mine, of in self._columns]
        same = _equal([(mine[:both], of[:both]) for mine, of in sides])
        length = both if same.all() else int(np.argmin(same))
        if length == size == self._sizes[place]:
            return length
        is_whole = both == size
        sides = sides if is_whole else [side[::-1] for side in sides]
        if not _contains(sides):
            return 0
        length = _in_place(sides, length, self._path[here:] if is_whole else None)
        is_kernel = self._sequences.kind[here : here + length] == EventKind.KERNEL
        is_named = self._sequences.name[here : here + length] != MISSING
        if not self.is_sure(graph) or self._sequences.is_forked[number]:
            is_named &= np.logical_and.accumulate(is_named | ~is_kernel)
        known = np.flatnonzero(is_kernel & is_named)
        length = int(known[-1]) + 1 if len(known) >= FEWEST_KERNELS else 0
        return length if length >= LEAST_SHARE * max(size, int(self._sizes[place])) else 0


def _equal(sides: Sequence[Sides]) -> Bool:
    found: Bool = np.logical_and.reduce([values_match(one, other) for one, other in sides])
    return found


def _contains(sides: Sequence[Sides]) -> bool:
    """Returns whether the first of the two sequences is a subsequence of the second."""
    short, long = len(sides[0][0]), len(sides[0][1])
    if (long - short) * long > MOST_COMPARED:
        return False
    done = lost = 0
    while done < short:
        same = _equal([(one[done:], other[done + lost : short + lost]) for one, other in sides])
        if same.all():
            return True
        done += int(np.argmin(same))
        later = np.flatnonzero(_equal([(one[done : done + 1], other[done + lost :]) for one, other in sides]))
        if not len(later) or lost + later[0] > long - short:
            return False
        lost += int(later[0])
    return True


def _in_place(sides: Sequence[Sides], length: int, path: Int64 | None) -> int:
    """Returns the number of nodes in the longer sequence that certainly match, starting from the first node.

    Nodes are missing in the shorter sequence. If several equal nodes or layers exist, it may be unknown which of
    these are missing. Nodes that have the same ``path`` are interchangeable.
    """
    lost = len(sides[0][1]) - len(sides[0][0])
    sure = at = length
    # moved[i]: whether i + 1 nodes may be lost before this node. Stops when no shift is possible.
    moved = np.ones(lost, np.bool_)
    while at and moved.any():
        at -= 1
        later = slice(at + 1, at + 1 + lost)
        moved = np.logical_or.accumulate(moved[::-1])[::-1]
        moved &= _equal([(one[at : at + 1], other[later]) for one, other in sides])
        if (moved if path is None else moved & (path[later] != path[at])).any():
            sure = at
    return sure
