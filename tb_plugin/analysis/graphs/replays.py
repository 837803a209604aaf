"""Replays: graph launches, and their device work in graph order."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Bool, Int32, Int64, UInt8
from tb_plugin.lib.groupby import group, number_groups, places_of, sequence_hashes
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.extra_columns import GRAPH_ID, NODE_ID, integers_of
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, CallRole, no_rows, of_kind
from tb_plugin.model.trace.table import TraceTable

# The lower bits of a node's full id are its number in the graph, the upper ones the graph number.
BITS = 32
_LOW = (1 << BITS) - 1


class Graphs(msgspec.Struct, frozen=True, eq=False):
    """Captured graphs.

    Nodes of graph g (device work only) are rows ``begin[g]`` to ``begin[g + 1] - 1``; -1 = missing.
    """

    begin: Int64 = msgspec.field(default_factory=lambda: np.zeros(1, np.int64))
    kind: UInt8 = no_rows(np.uint8)
    name: Int32 = no_rows(np.int32)
    grid: Int32 = no_rows(np.int32)
    block: Int32 = no_rows(np.int32)
    node: Int64 = no_rows(np.int64)
    """Recorded node id. Its upper 32 bits are the graph id."""
    recorded: Int64 = no_rows(np.int64)
    is_ordered: Bool = no_rows(np.bool_)
    """Whether the order of the graph's nodes is known: from node ids, or because a single stream ran all nodes."""

    def __len__(self) -> int:
        return len(self.begin) - 1

    def size(self, graph: int) -> int:
        return int(self.begin[graph + 1] - self.begin[graph])

    def nodes(self, graph: int) -> slice:
        return slice(int(self.begin[graph]), int(self.begin[graph + 1]))


class Replays(msgspec.Struct, frozen=True, eq=False):
    """Graph launches sorted by time. Replay i ran the device rows ``work[begin[i]:begin[i + 1]]``, in graph order."""

    call: Int64 = no_rows(np.int64)
    """Row of the graph launch (-1 = not recorded)."""
    begin: Int64 = msgspec.field(default_factory=lambda: np.zeros(1, np.int64))
    work: Int64 = no_rows(np.int64)
    graph: Int32 = no_rows(np.int32)
    """Index of the replayed graph: equal recorded ids or, without ids, equal work."""
    node: Int32 = no_rows(np.int32)
    """Node of each row in ``graphs``. -1 if the work of the replay is not that of most replays."""
    graphs: Graphs = msgspec.field(default_factory=Graphs)
    unlaunched: int = 0
    """Number of device rows that belong to graphs but have neither a recorded launch nor a recorded replay id."""

    def __len__(self) -> int:
        return len(self.call)


@cached_by_argument
def has_replays(trace: TraceTable) -> bool:
    return bool(trace.calls_that(CallRole.GRAPH).any()) or any(column.key == GRAPH_ID for column in trace.others)


@cached_by_argument
def replays_of(trace: TraceTable) -> Replays:
    if not has_replays(trace):
        return Replays()
    work, of, unlaunched = _pieces(trace)
    if not len(work):
        return Replays(unlaunched=unlaunched)
    graph_id, node_id = _ids(trace, work)
    count = np.bincount(of)
    has_node = np.bincount(of[node_id != MISSING], minlength=len(count)) == count
    # Sort each replay by node id, or else by time, which is row order.
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
    sequence, _ = number_groups(sequence_hashes(token, begin).view(np.int64))
    call = trace.launch[work[first]].astype(np.int64)
    # Graph ids are unique only per process and device.
    process, _ = number_groups(_processes(trace)[trace.track[call]] if len(call) else call)
    process = np.where(call == MISSING, MISSING, process)
    if len(np.unique(process[call != MISSING])) < 2:
        process[:] = 0  # also for launches that were not recorded
    known = recorded != MISSING
    device = trace.device[work[first]]
    graph = group(
        known, np.where(known, recorded, sequence), np.where(known, device, MISSING), np.where(known, process, MISSING)
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
    return Replays(call, begin, work, graph.astype(np.int32), nodes, graphs, unlaunched)


def replay_numbers(trace: TraceTable, rows: Int64) -> Int64:
    replays = replays_of(trace)
    order = np.argsort(replays.work, kind="stable")
    at = order[np.searchsorted(replays.work[order], rows)]
    return np.searchsorted(replays.begin, at, side="right").astype(np.int64) - 1


def _pieces(trace: TraceTable) -> tuple[Int64, Int64, int]:
    ids = integers_of(trace.others, GRAPH_ID)
    of_graph = np.zeros(len(trace) + 1, np.bool_)
    of_graph[:-1] = trace.calls_that(CallRole.GRAPH)
    of_graph = of_graph[trace.launch]
    if ids is not None:
        of_graph[ids[0][ids[1] > 0]] = True
    work = np.flatnonzero(of_graph & of_kind(trace.kind, *DEVICE_WORK))
    launch = trace.launch[work].astype(np.int64)
    lost = launch == MISSING
    tied = ~lost | (trace.correlation[work] > 0)
    unlaunched = int((~tied).sum())
    work, launch, lost = work[tied], launch[tied], lost[tied]
    numbers = np.where(lost, trace.correlation[work], MISSING)
    groups = group(launch, numbers, np.where(lost, trace.device[work], MISSING))
    head = work[groups.first]
    called = trace.launch[head]
    when = np.where(called == MISSING, trace.start_ns[head], trace.start_ns[called])
    rank = np.empty(len(head), np.int64)
    rank[np.lexsort((head, when))] = np.arange(len(head))
    return work, rank[groups.of], unlaunched


def _ids(trace: TraceTable, work: Int64) -> tuple[Int64, Int64]:
    """Returns the recorded graph id and node id of each row (-1 = none)."""
    found = []
    for key in (GRAPH_ID, NODE_ID):
        column = integers_of(trace.others, key)
        values = np.full(len(trace), MISSING, np.int64)
        if column is not None:
            values[column[0]] = column[1]
        found.append(values[work])
    graph, node = found
    graph = np.where((graph <= 0) & (node > _LOW), node >> BITS, np.where(graph > 0, graph, MISSING))
    return graph, np.where(node >= 0, node & _LOW, MISSING)


def kernel_args(trace: TraceTable, work: Int64) -> tuple[Int32, Int32]:
    """Returns the grid and block of each device row as string ids (-1 = none)."""
    place = places_of(trace.device_args.row, len(trace))[work]
    none = np.int32(MISSING)
    return np.append(trace.device_args.grid, none)[place], np.append(trace.device_args.block, none)[place]


def _processes(trace: TraceTable) -> Int64:
    """Returns the index of the process of each track. The last entry is for track -1."""
    known: dict[str, int] = {}
    numbers = [known.setdefault(track.pid, len(known)) for track in trace.tracks]
    return np.array([*numbers, MISSING], np.int64)


def _is_usual(graph: Int64, sequence: Int64) -> Bool:
    pairs = group(graph, sequence)
    of = graph[pairs.first]
    order = np.lexsort((pairs.first, -pairs.count(), of))
    best = np.zeros(len(pairs), np.bool_)
    best[order[np.append(True, of[order][1:] != of[order][:-1])]] = True
    return best[pairs.of]
