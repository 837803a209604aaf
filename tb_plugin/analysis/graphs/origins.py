"""Origins: the captured scopes of replayed work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.graphs.captures import Recorded, captured_in, captures, eager_sequences
from tb_plugin.analysis.graphs.replays import Graphs, has_replays, replays_of
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.graph_capture import Captured, Scopes, Sequences
from tb_plugin.model.trace.schema import MISSING, EventKind, no_rows
from tb_plugin.model.trace.table import TraceTable

if TYPE_CHECKING:
    from tb_plugin.analysis.graphs.mismatch_reasons import Refusal

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]
# Maps the start indices of matches to the scopes, and to the scope of each launch.
ScopesAt = Callable[[Mapping[int, Int64]], tuple[Scopes, Int32]]


class Way(IntEnum):
    """How replayed work was matched to its scopes, best first."""

    ANNOTATION = 0
    """The profiler recorded the scopes with the work."""
    CAPTURE = 1
    """The capture is in the same trace."""
    CAPTURE_TRACE = 2
    """Another trace contains the capture or runs the same work eagerly.

    That trace belongs to the same run or was selected by the user.
    """
    EAGER = 3
    """The same work is executed eagerly in this trace, and always has the same scopes."""
    GRAPH = 4
    """Unmatched: only the scopes that enclose the graph launch are known."""


class Agreement(msgspec.Struct, frozen=True):
    """A capture that matches only the first nodes of a graph."""

    source: str
    """Name on the page of the recording that contains the capture; "" if the recording is the trace itself."""
    agreeing: int
    nodes: int
    """Number of nodes in the graph or in its capture, whichever is larger."""

    def __str__(self) -> str:
        return f"{self.agreeing:,} of {self.nodes:,} nodes"


class Origins(msgspec.Struct, frozen=True, eq=False):
    """Captured scopes of replayed work.

    ``work`` contains the replayed rows in ascending order. ``scope`` contains the index of the scope of each of
    these rows (-1 = unknown).
    """

    work: Int64 = no_rows(np.int64)
    scope: Int32 = no_rows(np.int32)
    way: UInt8 = no_rows(np.uint8)
    """How the operator of each row was matched. For a row without an operator, how the scope of the row was matched."""
    scopes: Scopes = msgspec.field(default_factory=Scopes)
    module_way: UInt8 = no_rows(np.uint8)
    """How the module or phase of each row was matched; ``Way.GRAPH`` if unmatched."""
    refusals: tuple[Refusal, ...] = ()
    """Reasons for failed matches: one per graph and recording."""
    agreements: Mapping[int, Agreement] = msgspec.field(default_factory=dict)
    """Maps each incompletely matched graph to the capture that matches its first nodes."""

    def at(self, rows: npt.NDArray[np.integer]) -> Int32:
        """Returns the index of the scope of each row. -1 if the scope is unknown, or if the row is not replayed
        work.
        """
        if not len(self.work):
            return np.full(len(rows), MISSING, np.int32)
        place = np.minimum(np.searchsorted(self.work, rows), len(self.work) - 1)
        return np.where(self.work[place] == rows, self.scope[place], MISSING).astype(np.int32)


class _Known:
    """Scope of each graph node, if a match was found, and how the node was matched."""

    def __init__(self, trace: TraceTable) -> None:
        self.graphs = replays_of(trace).graphs
        self.scopes = Scopes()
        self.scope = np.full(len(self.graphs.kind), MISSING, np.int32)
        self.way = np.full(len(self.graphs.kind), Way.GRAPH, np.uint8)
        self.refusals: list[Refusal] = []
        self.agreements: dict[int, Agreement] = {}
        self._strings = trace.strings
        # Mask of graphs that are not matched yet.
        self.is_left = np.diff(self.graphs.begin) > 0

    def by_captures(self, told: Captured, way: Way) -> None:
        sequences, wanted = told.sequences, np.flatnonzero(self.is_left)
        if not sequences.is_capture.any():
            return
        from tb_plugin.analysis.graphs.matching import fitting_captures

        fits, too_many = fitting_captures(self.graphs, wanted, sequences)
        starts = {graph: sequences.begin[numbers] for graph, numbers in fits.items()}
        self._take(starts, told.source, way, _all_scopes(told))
        from tb_plugin.analysis.graphs.mismatch_reasons import not_fitting, too_often

        for graph in (each for each in wanted.tolist() if each not in fits):
            if graph in too_many:
                self.refusals.append(too_often(told.source, graph))
            elif (refusal := not_fitting(self._strings, self.graphs, graph, told)) is not None:
                self.refusals.append(refusal)

    def by_runs(self, sequences: Sequences, source: str, way: Way, scopes_at: ScopesAt) -> None:
        from tb_plugin.analysis.graphs.matching import equal_runs

        starts, too_many = equal_runs(self.graphs, np.flatnonzero(self.is_left), sequences)
        self._take(starts, source, way, scopes_at)
        from tb_plugin.analysis.graphs.mismatch_reasons import too_often

        self.refusals += [too_often(source, graph) for graph in sorted(too_many)]

    def by_starts(self, *sources: tuple[Captured, Way]) -> None:
        """Matches the first nodes of each graph to the captures with which the graph has the longest common prefix."""
        left = np.flatnonzero(self.is_left).tolist()
        from tb_plugin.analysis.graphs.partial_captures import longest_starts

        found = [longest_starts(self.graphs, left, told) for told, _ in sources]
        best = {graph: max((each[graph].length for each in found if graph in each), default=0) for graph in left}
        for (told, way), each in zip(sources, found, strict=True):
            mine = {
                graph: start for graph, start in each.items() if start.length == best[graph] and self.is_left[graph]
            }
            begins = {graph: told.sequences.begin[start.numbers] for graph, start in mine.items()}
            sizes = {graph: start.length for graph, start in mine.items()}
            self._take(begins, told.source, way, _all_scopes(told), sizes)
            names = {told.source, *(name for _, name in told.parts)}
            taken = {graph for graph in mine if not self.is_left[graph]}
            self.refusals = [one for one in self.refusals if one.graph not in taken or one.source not in names]
            for graph in sorted(taken):
                source = told.source_of(int(mine[graph].numbers[0]))
                self.agreements[graph] = Agreement(source, mine[graph].length, mine[graph].nodes)

    def _take(
        self,
        starts: Mapping[int, Int64],
        source: str,
        way: Way,
        scopes_at: ScopesAt,
        sizes: Mapping[int, int] | None = None,
    ) -> None:
        """Stores the scopes of matched graphs.

        ``sizes`` contains the number of matched nodes of each graph, starting from the first node (None = all
        nodes).
        """
        if not starts:
            return
        scopes, scope = scopes_at(starts)
        from tb_plugin.analysis.graphs.consensus import agreed_scopes

        found = agreed_scopes(sizes or {graph: self.graphs.size(graph) for graph in starts}, starts, scopes, scope)
        offset = len(self.scopes)
        from tb_plugin.analysis.graphs.scopes import concatenate

        self.scopes = concatenate(self.scopes, found.scopes)
        for graph, inner in found.of.items():
            begin = int(self.graphs.begin[graph])
            nodes = slice(begin, begin + len(inner))
            self.scope[nodes] = np.where(inner == MISSING, MISSING, inner + offset)
            self.way[nodes] = way
            self.is_left[graph] = False
        from tb_plugin.analysis.graphs.mismatch_reasons import not_agreeing

        for graph, at in found.disagreeing.items():
            self.refusals.append(not_agreeing(self._strings, source, graph, at, scopes))


@cached_by_argument
def origins_of(trace: TraceTable) -> Origins:
    """Returns the captured scopes of all replayed work in the trace, in all steps."""
    if not has_replays(trace):
        return Origins()
    replays = replays_of(trace)
    known = _known(trace)
    order = np.argsort(replays.work, kind="stable")
    work, node = replays.work[order], replays.node[order]
    scope = np.append(known.scope, np.int32(MISSING))[node]
    way = np.append(known.way, np.uint8(Way.GRAPH))[node]
    full = np.append(known.graphs.node, MISSING)[node]
    from tb_plugin.analysis.graphs.recorded_regions import recorded_scopes

    around, outer = recorded_scopes(trace, work, full, known.scopes.nearest(EventKind.PYTHON)[scope] != MISSING)
    module_way = np.where(_in_module(known.scopes, scope), way, Way.GRAPH)
    module_way = np.where(_in_module(around, outer), Way.ANNOTATION, module_way)
    way = np.where(
        known.scopes.nearest(EventKind.OPERATOR)[scope] != MISSING, way, np.where(outer != MISSING, Way.ANNOTATION, way)
    )
    from tb_plugin.analysis.graphs.scopes import insert_scopes, subset_scopes

    scopes, scope = subset_scopes(*insert_scopes(known.scopes, scope, around, outer))
    way = np.where(scope == MISSING, Way.GRAPH, way).astype(np.uint8)
    return Origins(work, scope, way, scopes, module_way.astype(np.uint8), tuple(known.refusals), known.agreements)


def _in_module(scopes: Scopes, scope: Int32) -> Bool:
    found: Bool = scopes.nearest(EventKind.MODULE, EventKind.ANNOTATION)[scope] != MISSING
    return found


def _known(trace: TraceTable) -> _Known:
    """Matches graphs to captures first, then to eager work. The first match of a graph is used."""
    known = _Known(trace)
    own = captured_in(trace) if len(captures(trace).sequences) else Captured()
    known.by_captures(own, Way.CAPTURE)
    other = trace.captured
    known.by_captures(other, Way.CAPTURE_TRACE)
    known.by_runs(other.sequences, other.source, Way.CAPTURE_TRACE, _all_scopes(other))
    if known.is_left.any():
        eager_work = eager_sequences(trace)
        known.by_runs(eager_work.sequences, "", Way.EAGER, partial(_scopes_at, trace, eager_work, known.graphs))
    known.by_starts((own, Way.CAPTURE), (other, Way.CAPTURE_TRACE))
    # Report failed matches within the trace only for unmatched graphs, those with other recordings always.
    known.refusals = [each for each in known.refusals if each.source or known.is_left[each.graph]]
    return known


def _all_scopes(told: Captured) -> ScopesAt:
    return lambda _: (told.scopes, told.sequences.scope)


def _scopes_at(trace: TraceTable, ran: Recorded, graphs: Graphs, starts: Mapping[int, Int64]) -> tuple[Scopes, Int32]:
    """Returns the scopes of the eager work that matches a graph. All other eager work is skipped to save time."""
    change = np.zeros(len(ran.source) + 1, np.int64)
    for graph, places in starts.items():
        np.add.at(change, places, 1)
        np.add.at(change, places + graphs.size(graph), -1)
    changed = np.flatnonzero(np.cumsum(change)[:-1])
    scope = np.full(len(ran.source), MISSING, np.int32)
    from tb_plugin.analysis.graphs.scopes import scopes_around

    scopes, scope[changed] = scopes_around(trace, ran.source[changed])
    return scopes, scope
