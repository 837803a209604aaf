"""Matching of graphs to captures and to equal eager work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.analysis.graphs.hashing import Rolling, hash_numbers, sequence_hashes
from tb_plugin.analysis.graphs.replays import Graphs
from tb_plugin.lib.groupby import group, stable_order
from tb_plugin.model.trace.graph_capture import Sequences
from tb_plugin.model.trace.schema import MISSING, EventKind

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

# Shorter sequences may occur twice by chance.
FEWEST_KERNELS = 8
# Graphs whose work is more frequent elsewhere are not searched there.
MOST_PLACES = 200_000
# Maximum variants of recorded columns among captures of one length.
MOST_PATTERNS = 64
# Maximum number of nodes compared one by one per graph.
MOST_COMPARED = 50_000_000
FIELDS = ("kind", "name", "grid", "block")


class Captures:
    """Index for finding captures by the columns that are recorded for their launches."""

    def __init__(self, graphs: Graphs, sequences: Sequences) -> None:
        self._graphs, self._sequences = graphs, sequences
        # Columns that no replay records cannot be compared.
        shown = [name for name in FIELDS if (getattr(graphs, name) != MISSING).any()]
        self._columns = [(getattr(graphs, name), getattr(sequences, name)) for name in shown]
        sizes = np.diff(sequences.begin)
        some = np.flatnonzero(sizes > 0)
        begin = np.append(sequences.begin[some], sequences.begin[-1])
        # Captures with the same recorded columns are looked up together.
        stated = [(of != MISSING).astype(np.int64) for _, of in self._columns]
        masks = sequence_hashes(hashes_of(stated), begin)
        values = sequence_hashes(hashes_of([of for _, of in self._columns]), begin)
        # Maps a node count to hashes of the recorded columns, each with one example capture.
        self._patterns: dict[int, dict[int, int]] = defaultdict(dict)
        equal: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for number, size, mask, value in zip(
            some.tolist(), sizes[some].tolist(), masks.tolist(), values.tolist(), strict=True
        ):
            if sequences.is_capture[number]:
                self._patterns[size].setdefault(mask, number)
                equal[size, mask, value].append(number)
        self._fits = {key: np.array(numbers, np.int64) for key, numbers in equal.items()}

    def fitting(self, graph: int) -> Int64 | None:
        """Returns the captures that match a graph; None if there are too many variants to compare.

        The graph and the capture must have the same number and kinds of nodes. The other columns must be equal
        wherever both the graph and the capture have a value. If the order of the graph's work is unknown, the
        capture must have a name for every kernel.
        """
        nodes = self._graphs.nodes(graph)
        size = nodes.stop - nodes.start
        patterns = self._patterns.get(size, {})
        if len(patterns) > MOST_PATTERNS:
            return None
        found = [np.empty(0, np.int64)]
        for mask, example in patterns.items():
            there = self._nodes(example)
            masked = [np.where(of[there] != MISSING, mine[nodes], MISSING) for mine, of in self._columns]
            value = int(sequence_hashes(hashes_of(masked), np.array([0, size]))[0])
            numbers = self._fits.get((size, mask, value))
            if numbers is None:
                continue
            there = self._nodes(int(numbers[0]))  # equal to the others in all compared columns
            if all(values_match(mine[nodes], of[there]).all() for mine, of in self._columns):
                found.append(numbers[self._is_sure(graph, numbers)])
        return np.sort(np.concatenate(found))

    def _nodes(self, number: int) -> slice:
        return slice(int(self._sequences.begin[number]), int(self._sequences.begin[number + 1]))

    def _is_sure(self, graph: int, numbers: Int64) -> Bool:
        """Returns whether nodes with the same index are certainly the same node in the graph and in the captures.

        This is proved by node ids, by the order on a single stream, or by kernel names.
        """
        nodes, there = self._graphs.nodes(graph), self._nodes(int(numbers[0]))
        kernels = self._sequences.kind[there] == EventKind.KERNEL
        if (self._graphs.node[nodes] != MISSING).all() or (self._sequences.name[there][kernels] != MISSING).all():
            return np.ones(len(numbers), np.bool_)
        sure: Bool = self._graphs.is_ordered[graph] & ~self._sequences.is_forked[numbers]
        return sure


def values_match(mine: npt.NDArray[np.integer], of: npt.NDArray[np.integer]) -> Bool:
    """Returns, for each pair, whether the replayed and the captured value are equal.

    A missing value matches any value.
    """
    fitting: Bool = (of == MISSING) | (mine == MISSING) | (mine == of)
    return fitting


def fitting_captures(graphs: Graphs, wanted: Int64, sequences: Sequences) -> tuple[dict[int, Int64], set[int]]:
    """Returns the matching captures of each graph in ``wanted``, and the graphs with too many variants to compare."""
    if not sequences.is_capture.any() or not len(wanted):
        return {}, set()
    captures = Captures(graphs, sequences)
    found = {graph: captures.fitting(graph) for graph in wanted.tolist()}
    too_many = {graph for graph, numbers in found.items() if numbers is None}
    return {graph: numbers for graph, numbers in found.items() if numbers is not None and len(numbers)}, too_many


def hashes_of(columns: Sequence[npt.NDArray[np.integer]]) -> Int64:
    """Returns one hash per row, computed from all columns. Hashes of different tables can be compared."""
    parts = [hash_numbers(hash_numbers(values).view(np.int64) + place) for place, values in enumerate(columns)]
    total: npt.NDArray[np.uint64] = np.add.reduce(parts)
    return total.view(np.int64)


class Haystack:
    """Index for finding a subsequence in many integer sequences."""

    def __init__(self, token: Int64, begin: Int64) -> None:
        self._token = token
        self._number = np.repeat(np.arange(len(begin) - 1), np.diff(begin))
        self._order = stable_order(token)
        self._ordered = token[self._order]
        self._rolling = Rolling(token)

    def places(self, needle: Int64) -> Int64 | None:
        """Returns the indices at which the subsequence ``needle`` starts; None if there are too many candidates."""
        size = len(needle)
        low = np.searchsorted(self._ordered, needle, side="left")
        high = np.searchsorted(self._ordered, needle, side="right")
        rarest = int(np.argmin(high - low))
        if high[rarest] - low[rarest] > MOST_PLACES:
            return None
        starts = np.sort(self._order[low[rarest] : high[rarest]]) - rarest
        starts = starts[(starts >= 0) & (starts + size <= len(self._token))]
        starts = starts[self._number[starts] == self._number[starts + size - 1]]
        starts = starts[self._rolling.at(starts, size) == Rolling(needle).at(np.zeros(1, np.int64), size)]
        if len(starts) * size > MOST_COMPARED:
            return None
        found: Int64 = starts[[np.array_equal(self._token[at : at + size], needle) for at in starts.tolist()]]
        return found


def equal_runs(graphs: Graphs, wanted: Int64, sequences: Sequences) -> tuple[dict[int, Int64], set[int]]:
    """Searches for eager work that is equal to the work of each graph.

    Returns the start indices of such work in the columns of ``sequences``, and the graphs with too many candidates.
    Kinds, names, grids and blocks must be equal. The graph must have at least 8 kernels, and the grid and block of
    each kernel must be recorded.
    """
    wanted = np.array([graph for graph in wanted.tolist() if _can_be_found(graphs, graphs.nodes(graph))], np.int64)
    if not len(wanted) or sequences.is_capture.all():
        return {}, set()
    columns = [(getattr(graphs, name), getattr(sequences, name)) for name in FIELDS]
    token = group(*(np.concatenate(both) for both in columns)).of
    own, token = np.split(token, [len(graphs.kind)])
    captured = np.repeat(sequences.is_capture, np.diff(sequences.begin))
    haystack = Haystack(np.where(captured, MISSING, token), sequences.begin)
    found: dict[int, Int64 | None] = {}
    # Layers of a model are captured one by one, so graphs with equal work are searched once.
    looked: dict[bytes, Int64 | None] = {}
    for graph in wanted.tolist():
        needle = own[graphs.nodes(graph)]
        key = needle.tobytes()
        if key not in looked:
            looked[key] = haystack.places(needle)
        found[graph] = looked[key]
    too_many = {graph for graph, places in found.items() if places is None}
    return {graph: places for graph, places in found.items() if places is not None and len(places)}, too_many


def with_names(sequences: Sequences, path: Int64) -> Sequences:
    """Adds the kernel names, grids and blocks of eager work to captures, which lack this data.

    Programs usually execute a step eagerly before they capture it. The eager work must have the same operators,
    modules and inputs as the capture, in the same order. ``path`` is a code for the operators and modules that
    enclose each launch (-1 = none). A kernel without a path gets no name.
    """
    captured = np.repeat(sequences.is_capture, np.diff(sequences.begin))
    unnamed = captured & (sequences.kind == EventKind.KERNEL) & (sequences.name == MISSING) & (path != MISSING)
    if not unnamed.any() or captured.all():
        return sequences
    token = group(sequences.kind, path).of
    haystack = Haystack(np.where(captured, MISSING, token), sequences.begin)
    told = {name: getattr(sequences, name).copy() for name in ("name", "grid", "block")}
    for begin, end in pairwise(sequences.begin.tolist()):
        unnamed_rows = begin + np.flatnonzero(unnamed[begin:end])
        places = haystack.places(token[begin:end]) if len(unnamed_rows) else None
        if places is None or not len(places):
            continue
        for name, values in told.items():
            ran = getattr(sequences, name)
            first = ran[int(places[0]) + unnamed_rows - begin]
            agree = np.ones(len(unnamed_rows), np.bool_)
            for place in places[1:].tolist():
                agree &= ran[place + unnamed_rows - begin] == first
            values[unnamed_rows[agree]] = first[agree]
    return replace(sequences, **told)


def _can_be_found(graphs: Graphs, nodes: slice) -> bool:
    kernels = graphs.kind[nodes] == EventKind.KERNEL
    if kernels.sum() < FEWEST_KERNELS:
        return False
    return bool((graphs.grid[nodes][kernels] != MISSING).all() and (graphs.block[nodes][kernels] != MISSING).all())


def first_difference(graphs: Graphs, graph: int, sequences: Sequences, number: int) -> tuple[int, str]:
    """Returns the index of the first node at which a sequence differs from a graph, and the column that differs.

    If either is a prefix of the other, returns the length of the prefix and "".
    """
    nodes = graphs.nodes(graph)
    begin, end = int(sequences.begin[number]), int(sequences.begin[number + 1])
    size = min(nodes.stop - nodes.start, end - begin)
    first, field = size, ""
    for name in FIELDS:
        mine = getattr(graphs, name)[nodes][:size]
        of = getattr(sequences, name)[begin : begin + size]
        differ = np.flatnonzero(~values_match(mine, of))
        if len(differ) and differ[0] < first:
            first, field = int(differ[0]), name
    return first, field
