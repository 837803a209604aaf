"""Matching of graphs to captures and to equal eager work."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.analysis.graphs.replays import Graphs
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import group, sequence_hashes, stable_order
from tb_plugin.model.trace.graph_capture import Sequences
from tb_plugin.model.trace.schema import MISSING, EventKind

# One column of a graph and of a capture.
Sides = tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]

# Shorter sequences may occur twice by chance.
FEWEST_KERNELS = 8
# A recorder that loses events loses a small part of them. If more is missing, the capture is of another graph.
LEAST_COMMON_SHARE = 2 / 3
# Maximum number of nodes compared per graph, and of captures of another size, most similar size first.
MOST_COMPARED, MOST_PARTIAL = 50_000_000, 64
FIELDS = ("kind", "name", "grid", "block")


class Match(msgspec.Struct, frozen=True, eq=False):
    """The captures that match most nodes of a graph."""

    starts: Int64
    """Row of each capture's first launch in ``Sequences``."""
    size: int
    """Number of matched nodes, starting from the first node."""
    nodes: int
    """Number of nodes in the graph or in the capture, whichever is larger."""
    agreeing: int
    """Number of equal nodes at the start. If ``size`` is 0, the captures cannot be used."""

    @property
    def is_complete(self) -> bool:
        return self.size == self.nodes


def match_captures(graphs: Graphs, sequences: Sequences) -> dict[int, Match]:
    """Returns the captures that match most nodes of each graph. Without captures, the result is empty.

    Kinds, names, grids and blocks must be equal wherever both sides have a value. Nodes may be missing on one side,
    if they follow each other; the nodes before them match. Such a match needs at least 8 named kernels.
    """
    captures = _Captures(graphs, sequences)
    # Layers of a model are captured one by one, so graphs with equal work are compared once.
    known: dict[bytes, Match | None] = {}
    found: dict[int, Match] = {}
    for graph in range(len(graphs)):
        nodes = graphs.nodes(graph)
        columns = [getattr(graphs, name)[nodes].tobytes() for name in FIELDS]
        key = b"".join([*columns, bytes([bool(graphs.is_ordered[graph]), captures.has_ids(graph)])])
        if key not in known:
            known[key] = captures.best(graph)
        match = known[key]
        if match is not None:
            found[graph] = match
    return found


class _Captures:
    """Captures grouped by content. Captures that have the same content are compared only once."""

    def __init__(self, graphs: Graphs, sequences: Sequences) -> None:
        self._graphs, self._sequences = graphs, sequences
        self._columns = [(getattr(graphs, name), getattr(sequences, name)) for name in FIELDS]
        some = np.flatnonzero(np.diff(sequences.begin) > 0)
        token = group(*(of for _, of in self._columns)).of
        content = sequence_hashes(token, np.append(sequences.begin[some], sequences.begin[-1]))
        captured = sequences.is_capture[some]
        self._number = some[captured]
        self._content = group(content[captured].view(np.int64), sequences.is_forked[self._number].astype(np.int64))
        self._begin = sequences.begin[self._number[self._content.first]]
        self._end = sequences.begin[self._number[self._content.first] + 1]
        self._is_forked = sequences.is_forked[self._number[self._content.first]]

    def has_ids(self, graph: int) -> bool:
        return bool((self._graphs.node[self._graphs.nodes(graph)] != MISSING).all())

    def best(self, graph: int) -> Match | None:
        nodes = self._graphs.nodes(graph)
        if not len(self._begin) or nodes.start == nodes.stop:
            return None
        size, sizes = nodes.stop - nodes.start, self._end - self._begin
        matched, every = np.zeros(len(sizes), np.int64), np.arange(len(sizes))
        agreeing = self._equal_first(nodes, every, FEWEST_KERNELS)
        near = every[agreeing == np.minimum(min(size, FEWEST_KERNELS), sizes)]
        alike = near[sizes[near] == size][: MOST_COMPARED // size]
        agreeing[alike] = self._equal_first(nodes, alike, size)
        for place in alike[agreeing[alike] == size].tolist():
            is_sure = bool(self._is_sure(graph, place).all())
            matched[place] = agreeing[place] = size if is_sure else 0
        if not matched.any():
            others = near[sizes[near] != size]
            for place in others[np.argsort(np.abs(sizes[others] - size), kind="stable")[:MOST_PARTIAL]].tolist():
                matched[place], agreeing[place] = self._start(graph, place)
        # Of captures that cannot be used, the one that agrees most is reported.
        order = np.lexsort((np.abs(sizes - size), -agreeing, -matched))
        nearest = int(order[0])
        best = every[matched == matched[nearest]] if matched.any() else order[:1]
        starts = np.sort(self._sequences.begin[self._number[np.isin(self._content.of, best)]])
        return Match(starts, int(matched[nearest]), max(size, int(sizes[nearest])), int(agreeing[nearest]))

    def _equal_first(self, nodes: slice, places: Int64, count: int) -> Int64:
        """Returns the number of equal nodes among the first ``count`` nodes of the graph and of these captures."""
        place = np.arange(min(nodes.stop - nodes.start, count))
        rows = np.minimum(self._begin[places][:, None] + place, self._end[places][:, None] - 1)
        equal = _equal([(mine[nodes][place], of[rows]) for mine, of in self._columns])
        equal &= place < (self._end - self._begin)[places][:, None]
        found: Int64 = np.logical_and.accumulate(equal, axis=1).sum(axis=1)
        return found

    def _is_sure(self, graph: int, place: int) -> Bool:
        """Returns, for each launch of a capture, whether it is certainly the graph node with the same index.

        The order of launches is the order of nodes, or else the names prove which node is which.
        """
        rows = slice(int(self._begin[place]), int(self._end[place]))
        in_order = self.has_ids(graph) or (self._graphs.is_ordered[graph] and not self._is_forked[place])
        is_kernel = self._sequences.kind[rows] == EventKind.KERNEL
        found: Bool = (self._sequences.name[rows] != MISSING) | ~is_kernel | in_order
        return found

    def _start(self, graph: int, place: int) -> tuple[int, int]:
        """Returns how many nodes certainly match a capture of another size, and how many are equal, both from the
        first node.
        """
        nodes, rows = self._graphs.nodes(graph), slice(int(self._begin[place]), int(self._end[place]))
        sides = [(mine[nodes], of[rows]) for mine, of in self._columns]
        sizes = nodes.stop - nodes.start, rows.stop - rows.start
        agreeing, ends = _equal_start(sides), _equal_start([(mine[::-1], of[::-1]) for mine, of in sides])
        if agreeing + ends < min(sizes) or min(sizes) < LEAST_COMMON_SHARE * max(sizes):
            return 0, agreeing
        # Of several equal nodes, any may be missing, so the earliest one counts.
        length = min(agreeing, min(sizes) - ends)
        is_sure = self._is_sure(graph, place)[:length]
        length = length if is_sure.all() else int(np.argmin(is_sure))
        is_kernel = self._sequences.kind[rows][:length] == EventKind.KERNEL
        named = np.flatnonzero(is_kernel & (self._sequences.name[rows][:length] != MISSING))
        return (int(named[-1]) + 1 if len(named) >= FEWEST_KERNELS else 0), agreeing


def _equal(sides: Sequence[Sides]) -> Bool:
    """Returns whether all columns are equal. A missing value equals any value."""
    found: Bool = np.logical_and.reduce([(of == MISSING) | (mine == MISSING) | (mine == of) for mine, of in sides])
    return found


def _equal_start(sides: Sequence[Sides]) -> int:
    size = min(map(len, sides[0]))
    equal = _equal([(mine[:size], of[:size]) for mine, of in sides])
    return size if equal.all() else int(np.argmin(equal))


class _Eager:
    """Index for finding a subsequence in sequences of eager work."""

    def __init__(self, sequences: Sequences, token: Int64) -> None:
        self.is_captured = np.repeat(sequences.is_capture, np.diff(sequences.begin))
        self._token = np.where(self.is_captured, MISSING, token)
        self._number = np.repeat(np.arange(len(sequences)), np.diff(sequences.begin))
        self._order = stable_order(self._token)
        self._ordered = self._token[self._order]

    def places(self, needle: Int64) -> Int64:
        """Returns the rows at which ``needle`` starts; empty if there are too many candidates to compare."""
        size = len(needle)
        low = np.searchsorted(self._ordered, needle, side="left")
        high = np.searchsorted(self._ordered, needle, side="right")
        rarest = int(np.argmin(high - low))
        if (high[rarest] - low[rarest]) * size > MOST_COMPARED:
            return np.empty(0, np.int64)
        starts: Int64 = np.sort(self._order[low[rarest] : high[rarest]]) - rarest
        starts = starts[(starts >= 0) & (starts + size <= len(self._token))]
        starts = starts[self._number[starts] == self._number[starts + size - 1]]
        for place, wanted in enumerate(needle.tolist()):
            starts = starts[self._token[starts + place] == wanted]
        return starts


def match_eager_work(graphs: Graphs, wanted: Sequence[int], sequences: Sequences) -> dict[int, Match]:
    """Returns the eager work that is equal to the work of each graph in ``wanted``.

    Kinds, names, grids and blocks must be equal. The graph must have at least 8 kernels, and the grid and block of
    each kernel must be recorded.
    """
    wanted = [graph for graph in wanted if _has_enough_kernels(graphs, graphs.nodes(graph))]
    if not wanted or sequences.is_capture.all():
        return {}
    token = group(*(np.concatenate((getattr(graphs, name), getattr(sequences, name))) for name in FIELDS)).of
    own, token = np.split(token, [len(graphs.kind)])
    eager = _Eager(sequences, token)
    known: dict[bytes, Int64] = {}
    found: dict[int, Match] = {}
    for graph in wanted:
        needle = own[graphs.nodes(graph)]
        key = needle.tobytes()
        if key not in known:
            known[key] = eager.places(needle)
        if len(known[key]):
            found[graph] = Match(known[key], len(needle), len(needle), len(needle))
    return found


def _has_enough_kernels(graphs: Graphs, nodes: slice) -> bool:
    kernels = graphs.kind[nodes] == EventKind.KERNEL
    if kernels.sum() < FEWEST_KERNELS:
        return False
    return bool((graphs.grid[nodes][kernels] != MISSING).all() and (graphs.block[nodes][kernels] != MISSING).all())


def with_names(sequences: Sequences, path: Int64) -> Sequences:
    """Adds the kernel names, grids and blocks of eager work to captures, which lack this data.

    Programs usually execute a step eagerly before they capture it. The eager work must have the same operators,
    modules and inputs as the capture, in the same order. ``path`` is a code for the operators and modules that
    enclose each launch (-1 = none). A kernel without a path gets no name.
    """
    token = group(sequences.kind, path).of
    eager = _Eager(sequences, token)
    unnamed = eager.is_captured & (sequences.kind == EventKind.KERNEL) & (sequences.name == MISSING)
    unnamed &= path != MISSING
    if not unnamed.any() or eager.is_captured.all():
        return sequences
    columns = {name: getattr(sequences, name).copy() for name in ("name", "grid", "block")}
    for begin, end in pairwise(sequences.begin.tolist()):
        rows = np.flatnonzero(unnamed[begin:end])
        places = eager.places(token[begin:end]) if len(rows) else rows
        if not len(places):
            continue
        for values in columns.values():
            ran = values[places[:, None] + rows]
            values[begin + rows] = np.where((ran == ran[0]).all(axis=0), ran[0], MISSING)
    return replace(sequences, **columns)
