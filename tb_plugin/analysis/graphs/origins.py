"""Origins: the captured scopes of replayed work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.graphs.captures import Recorded, captured_in, captures, eager_sequences
from tb_plugin.analysis.graphs.matching import Match, match_captures, match_eager_work
from tb_plugin.analysis.graphs.replays import has_replays, replays_of
from tb_plugin.analysis.graphs.scopes import CommonScopes, concatenate, insert_scopes, scopes_around, subset_scopes
from tb_plugin.analysis.kernel_facts import first_reported_text
from tb_plugin.lib.arrays import Bool, Int32, Int64, UInt8
from tb_plugin.lib.groupby import group
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.extra_columns import BACKWARD_PHASE, REGION, REGION_PHASE, REGIONS
from tb_plugin.model.trace.graph_capture import Captured, NodeStacks, Scopes, scopes_of_kind
from tb_plugin.model.trace.graph_regions import Region, listed_regions
from tb_plugin.model.trace.schema import MISSING, EventKind, no_rows
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import TraceTable


class Way(IntEnum):
    """How replayed work was matched to its scopes, best first."""

    ANNOTATION = 0
    """The profiler recorded the scopes with the work."""
    CAPTURE = 1
    """The capture is in the same trace."""
    CAPTURE_TRACE = 2
    """Another trace of the run, or one that the user selected, has the capture or the same eager work."""
    EAGER = 3
    """The same work is executed eagerly in this trace, and always has the same scopes."""
    GRAPH = 4
    """Unmatched: only the scopes that enclose the graph launch are known."""
    NONE = 5
    """Unmatched, and no scope encloses the graph launch."""


class Agreement(msgspec.Struct, frozen=True):
    """The capture that matches most nodes of a graph, if no capture matches all of them."""

    source: str
    """Name on the page of the recording with the capture; "" if the capture is in the trace itself."""
    agreeing: int
    """Number of equal nodes, starting from the first node."""
    nodes: int
    """Number of nodes in the graph or in its capture, whichever is larger."""
    is_used: bool
    """Whether these nodes have the operators of the capture."""

    def __str__(self) -> str:
        return f"{self.agreeing:,} of {self.nodes:,} nodes"


class Origins(msgspec.Struct, frozen=True, eq=False):
    """Captured ``scope`` (-1 = unknown) of each replayed row in ``work``, which is ascending."""

    work: Int64 = no_rows(np.int64)
    scope: Int32 = no_rows(np.int32)
    way: UInt8 = no_rows(np.uint8)
    """How the operator of each row was matched. For a row without an operator, how the scope of the row was matched."""
    scopes: Scopes = msgspec.field(default_factory=Scopes)
    module_way: UInt8 = no_rows(np.uint8)
    """How the module or phase of each row was matched; ``Way.GRAPH`` if unmatched."""
    agreements: Mapping[int, Agreement] = msgspec.field(default_factory=dict)
    """Maps each graph without a complete match to the capture that matches most of its nodes."""

    def at(self, rows: npt.NDArray[np.integer]) -> Int32:
        """Returns the scope index of each row. -1 if unknown or not replayed."""
        if not len(self.work):
            return np.full(len(rows), MISSING, np.int32)
        place = np.minimum(np.searchsorted(self.work, rows), len(self.work) - 1)
        return np.where(self.work[place] == rows, self.scope[place], MISSING).astype(np.int32)


class _Known:
    def __init__(self, trace: TraceTable) -> None:
        self.graphs = replays_of(trace).graphs
        self.scopes = Scopes()
        self.scope = np.full(len(self.graphs.kind), MISSING, np.int32)
        self.way = np.full(len(self.graphs.kind), Way.GRAPH, np.uint8)
        # Mask of graphs that are not matched yet.
        self.is_left = np.diff(self.graphs.begin) > 0

    @property
    def left(self) -> list[int]:
        return np.flatnonzero(self.is_left).tolist()

    def take(self, matches: Mapping[int, Match], way: Way, scopes: Scopes, scope: Int32) -> None:
        matches = {graph: match for graph, match in matches.items() if self.is_left[graph]}
        if not matches:
            return
        common = CommonScopes(scopes, scope, all(len(match.starts) == 1 for match in matches.values()))
        offset = len(self.scopes)
        known: dict[tuple[int, bytes], Int32] = {}
        for graph, match in matches.items():
            key = match.size, match.starts.tobytes()
            if key not in known:
                known[key] = common.of(match.starts, match.size)
            begin = int(self.graphs.begin[graph])
            nodes = slice(begin, begin + match.size)
            self.scope[nodes] = np.where(known[key] == MISSING, MISSING, known[key] + offset)
            self.way[nodes] = way
            self.is_left[graph] = False
        self.scopes = concatenate(self.scopes, common.scopes)


@cached_by_argument
def origins_of(trace: TraceTable) -> Origins:
    if not has_replays(trace):
        return Origins()
    replays = replays_of(trace)
    known, agreements = _known(trace)
    order = np.argsort(replays.work, kind="stable")
    work, node = replays.work[order], replays.node[order]
    scope = np.append(known.scope, np.int32(MISSING))[node]
    way = np.append(known.way, np.uint8(Way.GRAPH))[node]
    full = np.append(known.graphs.node, MISSING)[node]
    around, outer = _recorded_scopes(trace, work, full, known.scopes.nearest(EventKind.PYTHON)[scope] != MISSING)
    module_way = np.where(_in_module(known.scopes, scope), way, Way.GRAPH)
    module_way = np.where(_in_module(around, outer), Way.ANNOTATION, module_way)
    way = np.where(
        known.scopes.nearest(EventKind.OPERATOR)[scope] != MISSING, way, np.where(outer != MISSING, Way.ANNOTATION, way)
    )
    scopes, scope = subset_scopes(*insert_scopes(known.scopes, scope, around, outer))
    way = np.where(scope == MISSING, Way.GRAPH, way).astype(np.uint8)
    return Origins(work, scope, way, scopes, module_way.astype(np.uint8), agreements)


def _in_module(scopes: Scopes, scope: Int32) -> Bool:
    found: Bool = scopes.nearest(EventKind.MODULE, EventKind.ANNOTATION)[scope] != MISSING
    return found


def _known(trace: TraceTable) -> tuple[_Known, dict[int, Agreement]]:
    known, own, other = _Known(trace), Captured(), trace.captured
    if len(captures(trace).sequences):
        own = captured_in(trace)
    sources = [
        (own, Way.CAPTURE, match_captures(known.graphs, own.sequences)),
        (other, Way.CAPTURE_TRACE, match_captures(known.graphs, other.sequences)),
    ]
    for told, way, found in sources:
        complete = {graph: match for graph, match in found.items() if match.is_complete}
        known.take(complete, way, told.scopes, told.sequences.scope)
    same_work = match_eager_work(known.graphs, known.left, other.sequences)
    known.take(same_work, Way.CAPTURE_TRACE, other.scopes, other.sequences.scope)
    if known.left:
        eager = eager_sequences(trace)
        same_work = match_eager_work(known.graphs, known.left, eager.sequences)
        known.take(same_work, Way.EAGER, *_scopes_at(trace, eager, same_work.values()))
    agreements: dict[int, Agreement] = {}
    for graph in known.left:
        partial = [(told, way, found[graph]) for told, way, found in sources if graph in found]
        if partial:
            told, way, match = max(partial, key=lambda each: (each[2].size, each[2].agreeing))
            agreements[graph] = Agreement(told.source, match.size or match.agreeing, match.nodes, match.size > 0)
    for told, way, found in sources:
        used = {
            graph: found[graph]
            for graph, each in agreements.items()
            if each.is_used and graph in found and found[graph].size == each.agreeing
        }
        known.take(used, way, told.scopes, told.sequences.scope)
    return known, agreements


def _scopes_at(trace: TraceTable, eager: Recorded, matches: Iterable[Match]) -> tuple[Scopes, Int32]:
    change = np.zeros(len(eager.source) + 1, np.int64)
    for match in matches:
        np.add.at(change, match.starts, 1)
        np.add.at(change, match.starts + match.size, -1)
    matched = np.flatnonzero(np.cumsum(change)[:-1])
    scope = np.full(len(eager.source), MISSING, np.int32)
    scopes, scope[matched] = scopes_around(trace, eager.source[matched])
    return scopes, scope


def _recorded_scopes(trace: TraceTable, work: Int64, node: Int64, has_python: Bool) -> tuple[Scopes, Int32]:
    """Returns the scopes recorded with replayed rows, and the index of the innermost scope of each row (-1 = none).

    ``node`` contains node ids; the upper bits of a node id are the graph id. If ``has_python`` is set for a row,
    recorded Python calls of its node are ignored.
    """
    regions = np.stack([first_reported_text(trace, (key,), work) for key in (REGION, REGION_PHASE, REGIONS)])
    stacks = trace.captured.stacks
    inner = np.where(has_python, MISSING, _stack_of(stacks, node))
    keys = group(*regions, inner)
    first = keys.first
    said = _regions(trace.strings, *regions[:, first])
    ids = _ids(trace.strings, sorted({name for each in said for name, _ in each}))
    names: list[int] = []
    parents: list[int] = []
    backward: list[bool] = []
    last: list[int] = []
    for above, each in zip(inner[first].tolist(), said, strict=True):
        at = above
        for name, is_backward in each:
            if ids[name] == MISSING:
                continue
            names.append(ids[name])
            parents.append(at)
            backward.append(is_backward)
            at = len(stacks.scopes) + len(names) - 1
        last.append(at)
    none = np.full(len(names), MISSING, np.int32)
    region_scopes = scopes_of_kind(EventKind.ANNOTATION, np.array(names, np.int32), none, np.array(backward, np.bool_))
    scopes = concatenate(stacks.scopes, region_scopes)
    scopes.parent[len(stacks.scopes) :] = parents
    return scopes, np.array(last, np.int32)[keys.of] if len(work) else np.empty(0, np.int32)


def _stack_of(stacks: NodeStacks, node: Int64) -> Int32:
    if not len(stacks.node):
        return np.full(len(node), MISSING, np.int32)
    place = np.minimum(np.searchsorted(stacks.node, node), len(stacks.node) - 1)
    return np.where((stacks.node[place] == node) & (node != MISSING), stacks.scope[place], MISSING).astype(np.int32)


def _regions(strings: StringTable, name: Int32, phase: Int32, listed: Int32) -> list[list[Region]]:
    known = {int(each): strings[int(each)] for each in np.unique(np.concatenate((name, phase, listed)))}
    parsed = {int(each): listed_regions(known[int(each)]) for each in np.unique(listed)}
    found = []
    for region, part, text in zip(name.tolist(), phase.tolist(), listed.tolist(), strict=True):
        single = [(known[region], known[part] == BACKWARD_PHASE)] if known[region] else []
        found.append([*parsed[text], *single])
    return found


def _ids(strings: StringTable, names: list[str]) -> dict[str, int]:
    if not names:
        return {}
    places = pc.index_in(pa.array(names, pa.large_string()), strings.array).fill_null(MISSING)
    return dict(zip(names, places.to_pylist(), strict=True))
