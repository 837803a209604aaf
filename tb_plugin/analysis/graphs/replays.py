"""Replays: launches of captured graphs, and their work in the order of the graph."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.graphs.hashing import sequence_hashes
from tb_plugin.lib.groupby import group, numbered, places_of
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.extra_columns import GRAPH_ID, NODE_ID
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, CallRole, no_rows, of_kind
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]

BITS = 32
"""The lower bits of a node's full id are its number in the graph, the upper ones the number of the graph."""
_LOW = (1 << BITS) - 1


@dataclass(frozen=True, eq=False)
class Graphs:
    """What was captured, as its replays show it: graph g has the nodes ``[begin[g], begin[g + 1])`` of the other columns.

    Nodes are device work only; -1 = absent.
    """

    begin: Int64 = field(default_factory=lambda: np.zeros(1, np.int64))
    kind: UInt8 = no_rows(np.uint8)
    name: Int32 = no_rows(np.int32)
    grid: Int32 = no_rows(np.int32)
    block: Int32 = no_rows(np.int32)
    node: Int64 = no_rows(np.int64)
    """Recorded id of the node with that of its graph in the upper bits."""
    recorded: Int64 = no_rows(np.int64)
    """Recorded id of each graph."""
    is_ordered: Bool = no_rows(np.bool_)
    """Whether the order of each graph's nodes is known: by their ids, or because one stream ran all of them."""

    def __len__(self) -> int:
        return len(self.begin) - 1

    def size(self, graph: int) -> int:
        """Returns how many nodes a graph has."""
        return int(self.begin[graph + 1] - self.begin[graph])

    def nodes(self, graph: int) -> slice:
        """Returns where the nodes of a graph stand."""
        return slice(int(self.begin[graph]), int(self.begin[graph + 1]))


@dataclass(frozen=True, eq=False)
class Replays:
    """Launches of graphs by time. Replay i has the device rows ``work[begin[i]:begin[i + 1]]``, in the order of the graph."""

    call: Int64 = no_rows(np.int64)
    """Row of the launch, -1 where only its work was recorded."""
    begin: Int64 = field(default_factory=lambda: np.zeros(1, np.int64))
    work: Int64 = no_rows(np.int64)
    graph: Int32 = no_rows(np.int32)
    """Number of the graph that each launched: those with one recorded id, else with the same work in the same order."""
    node: Int32 = no_rows(np.int32)
    """The node in ``graphs`` that each piece of work is; -1 where a replay is not like the others of its graph."""
    graphs: Graphs = field(default_factory=Graphs)
    untied: int = 0
    """Pieces of work of graphs without launch and without a number that would tell which of them belong together."""

    def __len__(self) -> int:
        return len(self.call)


@remembered
def has_replays(trace: TraceTable) -> bool:
    """Returns whether the trace launches any captured graph, or holds work of one."""
    return bool(trace.calls_that(CallRole.GRAPH).any()) or any(column.key == GRAPH_ID for column in trace.others)


@remembered
def replays_of(trace: TraceTable) -> Replays:
    """Returns the launches of graphs that brought device work, whichever steps are chosen."""
    if not has_replays(trace):
        return Replays()
    work, of, untied = _pieces(trace)
    if not len(work):
        return Replays(untied=untied)
    graph_id, node_id = _ids(trace, work)
    count = np.bincount(of)
    has_node = np.bincount(of[node_id != MISSING], minlength=len(count)) == count
    # Within a replay by node, else by time, in which the rows stand.
    rank = np.where(has_node[of], node_id, 0)
    order = np.argsort(of * (int(rank.max()) + 1) + rank, kind="stable")
    work, of, graph_id, node_id = work[order], of[order], graph_id[order], node_id[order]
    begin = np.append(0, np.cumsum(count)).astype(np.int64)
    first = begin[:-1]
    recorded = np.minimum.reduceat(graph_id, first)
    recorded[recorded != np.maximum.reduceat(graph_id, first)] = MISSING
    one_stream = np.minimum.reduceat(trace.track[work], first) == np.maximum.reduceat(trace.track[work], first)
    args = kernel_args(trace, work)
    token = group(trace.kind[work], trace.name[work], args[0], args[1]).of
    sequence, _ = numbered(sequence_hashes(token, begin).view(np.int64))
    call = trace.launch[work[first]].astype(np.int64)
    # Programs number their graphs each for itself, and so do devices.
    process, _ = numbered(_processes(trace)[trace.track[call]] if len(call) else call)
    process = np.where(call == MISSING, MISSING, process)
    if len(np.unique(process[call != MISSING])) < 2:
        process[:] = 0  # also where a launch was lost
    known = recorded != MISSING
    device = trace.device[work[first]]
    graph = group(
        known,
        np.where(known, recorded, sequence),
        np.where(known, device, MISSING),
        np.where(known, process, MISSING),
    ).of
    by_node = np.bincount(graph[~has_node], minlength=int(graph.max()) + 1)[graph] == 0
    usual = _is_usual(graph, sequence)
    place = np.where(by_node[of], node_id, np.where(usual[of], np.arange(len(work)) - begin[of], MISSING))
    told = np.flatnonzero(place != MISSING)
    keys, node = np.unique((graph[of[told]] << BITS) + place[told], return_inverse=True)
    nodes = np.full(len(work), MISSING, np.int32)
    nodes[told] = node
    shown = np.empty(len(keys), np.int64)
    shown[node[::-1]] = told[::-1]
    last = int(graph.max()) + 1
    ordered = np.bincount(graph[~(by_node | one_stream)], minlength=last) == 0
    number = np.full(last, MISSING, np.int64)
    number[graph] = recorded
    full = np.where((node_id != MISSING) & (graph_id != MISSING), (graph_id << BITS) + node_id, MISSING)
    graphs = Graphs(
        begin=np.searchsorted(keys, np.arange(last + 1, dtype=np.int64) << BITS),
        kind=trace.kind[work[shown]],
        name=trace.name[work[shown]],
        grid=args[0][shown],
        block=args[1][shown],
        node=full[shown],
        recorded=number,
        is_ordered=ordered,
    )
    return Replays(call, begin, work, graph.astype(np.int32), nodes, graphs, untied)


def replay_numbers(trace: TraceTable, rows: Int64) -> Int64:
    """Returns the number of the replay that each replayed device row is of."""
    replays = replays_of(trace)
    order = np.argsort(replays.work, kind="stable")
    at = order[np.searchsorted(replays.work[order], rows)]
    return np.searchsorted(replays.begin, at, side="right").astype(np.int64) - 1


def _pieces(trace: TraceTable) -> tuple[Int64, Int64, int]:
    """Device rows of graphs by time, the number of the replay of each, and how many rows no replay can be told of."""
    ids = _column(trace, GRAPH_ID)
    of_graph = np.zeros(len(trace) + 1, np.bool_)
    of_graph[:-1] = trace.calls_that(CallRole.GRAPH)
    of_graph = of_graph[trace.launch]
    if ids is not None:
        of_graph[ids[0][ids[1] > 0]] = True
    work = np.flatnonzero(of_graph & of_kind(trace.kind, *DEVICE_WORK))
    launch = trace.launch[work].astype(np.int64)
    lost = launch == MISSING
    tied = ~lost | (trace.correlation[work] > 0)
    untied = int((~tied).sum())
    work, launch, lost = work[tied], launch[tied], lost[tied]
    numbers = np.where(lost, trace.correlation[work], MISSING)
    groups = group(launch, numbers, np.where(lost, trace.device[work], MISSING))
    head = work[groups.first]
    called = trace.launch[head]
    when = np.where(called == MISSING, trace.start_ns[head], trace.start_ns[called])
    rank = np.empty(len(head), np.int64)
    rank[np.lexsort((head, when))] = np.arange(len(head))
    return work, rank[groups.of], untied


def _column(trace: TraceTable, key: str) -> tuple[Int32, Int64] | None:
    """Rows and values of an open column of whole numbers, None where there is none."""
    for column in trace.others:
        if column.key == key and not column.is_text and column.value.dtype.kind == "i":
            return column.row, column.value.astype(np.int64)
    return None


def _ids(trace: TraceTable, work: Int64) -> tuple[Int64, Int64]:
    """The recorded number of the graph of each piece of work, and that of its node in the graph; -1 = none."""
    found = []
    for key in (GRAPH_ID, NODE_ID):
        column = _column(trace, key)
        values = np.full(len(trace), MISSING, np.int64)
        if column is not None:
            values[column[0]] = column[1]
        found.append(values[work])
    graph, node = found
    graph = np.where((graph <= 0) & (node > _LOW), node >> BITS, np.where(graph > 0, graph, MISSING))
    return graph, np.where(node >= 0, node & _LOW, MISSING)


def kernel_args(trace: TraceTable, work: Int64) -> tuple[Int32, Int32]:
    """Returns grid and block of each piece of work, string ids."""
    place = places_of(trace.device_args.row, len(trace))[work]
    none = np.int32(MISSING)
    return np.append(trace.device_args.grid, none)[place], np.append(trace.device_args.block, none)[place]


def _processes(trace: TraceTable) -> Int64:
    """A number for the process of each track, and one more for -1."""
    known: dict[str, int] = {}
    numbers = [known.setdefault(track.pid, len(known)) for track in trace.tracks]
    return np.array([*numbers, MISSING], np.int64)


def _is_usual(graph: Int64, sequence: Int64) -> Bool:
    """Whether each replay brought the sequence of work that most of its graph did; of equally many the first."""
    pairs = group(graph, sequence)
    of = graph[pairs.first]
    order = np.lexsort((pairs.first, -pairs.count(), of))
    best = np.zeros(len(pairs), np.bool_)
    best[order[np.append(True, of[order][1:] != of[order][:-1])]] = True
    return best[pairs.of]
