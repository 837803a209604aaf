"""Tables of graphs, nodes and replays."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.annotations import annotation_around
from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.demangle import readable_names
from tb_plugin.analysis.filters import EVENT
from tb_plugin.analysis.graphs.attribution import WAYS
from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.analysis.range_patterns import module_label
from tb_plugin.analysis.unattributed_kernels import module_around
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import Groups, group, ratio, sum_by
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, Sort
from tb_plugin.views.graphs.metrics import METRICS
from tb_plugin.views.graphs.replays import SelectedReplays, labels_of

# Shorter node sequences repeat by chance.
SHORTEST = 4
# Minimum share of the graph that a repeated part must cover.
LEAST_COVERED = 0.5
# The most frequent distances between equal nodes.
_MAX_LENGTHS_TRIED = 32


class Repeated(msgspec.Struct, frozen=True):
    """A repeated part of a sequence: ``count`` repeats of ``length`` items, from index ``begin``."""

    begin: int
    length: int
    count: int

    @property
    def end(self) -> int:
        return self.begin + self.length * self.count


def repeated_part(token: npt.NDArray[np.integer], weight: Int64) -> Repeated | None:
    """Returns the shortest repetition that covers most of a sequence; None if nothing repeats."""
    best, free = Repeated(0, 0, 0), 0
    for length in _lengths(token):
        begin, run = _longest_run(token[length:] == token[:-length])
        found = Repeated(begin, length, run // length + 1)
        if found.count > 1 and found.end - begin > best.end - best.begin:
            best, free = found, run % length
    size = best.end - best.begin
    if not size or size < LEAST_COVERED * len(token):
        return None
    until = np.append(0, np.cumsum(weight))
    begins = best.begin + np.arange(free + 1)
    return Repeated(int(begins[np.argmax(until[begins + size] - until[begins])]), best.length, best.count)


def _lengths(token: npt.NDArray[np.integer]) -> list[int]:
    order = np.argsort(token, kind="stable")
    distances = np.diff(order)[token[order][1:] == token[order][:-1]]
    distances = distances[distances >= SHORTEST]
    count = np.bincount(distances)
    known = np.flatnonzero(count)
    common = known[np.argsort(-count[known], kind="stable")[:_MAX_LENGTHS_TRIED]]
    return sorted(common.tolist())


def _longest_run(flags: npt.NDArray[np.bool_]) -> tuple[int, int]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(np.argmax(lengths))
    return int(edges[2 * longest]), int(lengths[longest])


WAY_TEXTS = [title.lower() for title, _ in WAYS.values()]
FIRST: Mapping[str, str] = MappingProxyType({"start_ns": "First at", "dur_ns": "First takes"})
Parts = Mapping[int, Repeated | None]
"""Repeated part of each graph, by graph number."""


def graphs_table(trace: TraceTable, selected: SelectedReplays, parts: Parts) -> Frame:
    """Returns one row per graph with selected replays. The graph with the longest device time comes first."""
    groups = group(selected.graph)
    number = selected.graph[groups.first]
    labels = labels_of(selected.replays)
    replays, device = groups.count(), groups.sum(selected.device_ns)
    has_call = selected.call != MISSING
    most, known = _most(selected, len(labels))
    repeated = [parts[each] for each in number.tolist()]
    gaps, span = groups.sum(selected.node_gaps_ns), groups.sum(selected.end_ns - selected.start_ns)
    nodes = np.zeros(len(groups), np.int64)
    np.maximum.at(nodes, groups.of, selected.nodes)
    first = selected.start_ns[groups.first]
    phase, module, frame = _around(trace, selected, groups)
    agreements = origins_of(trace).agreements
    agreeing = [str(agreements[each]) if each in agreements else None for each in number.tolist()]
    agreement = {"graph_agreement": pa.array(agreeing, pa.string())} if agreements else {}
    data = {
        "captured_graph": pa.array([labels[each] for each in number.tolist()], pa.string()),
        "launch_phase": phase,
        "replays": pa.array(replays),
        "graph_nodes": pa.array(nodes),
        "graph_device_ns": pa.array(device),
        "graph_mean_ns": pa.array(device / np.maximum(replays, 1)),
        "graph_tied_ratio": pa.array(ratio(known[number], device)),
        "graph_way": pa.array([WAY_TEXTS[most[each]] for each in number.tolist()], pa.string()),
        **agreement,
        "node_gaps_ns": pa.array(gaps),
        "node_gaps_ratio": pa.array(ratio(gaps, span)),
        "replay_gaps_ns": pa.array(
            groups.sum(np.maximum(selected.gap_ns, 0)), mask=~groups.any(selected.gap_ns != MISSING)
        ),
        "graph_launch_ns": pa.array(groups.sum(np.where(has_call, selected.launch_ns, 0)), mask=~groups.any(has_call)),
        "graph_repeats": pa.array([part and part.count for part in repeated], pa.int64()),
        "repeat_nodes": pa.array([part and part.length for part in repeated], pa.int64()),
        "repeat_ratio": _in_repeats(selected, number, repeated, device),
        "launch_module": module,
        "launch_frame": frame,
        "start_ns": pa.array(first),
        "dur_ns": pa.array(selected.end_ns[groups.first] - first),
    }
    if trace.captured.source:
        sources = [trace.captured.source if most[each] == Way.CAPTURE_TRACE else None for each in number.tolist()]
        data["graph_source"] = pa.array(sources, pa.string())
    hidden = ("dur_ns", "repeat_nodes", "repeat_ratio", "node_gaps_ratio")
    shown = [key for key in data if data[key].null_count < max(1, len(groups))]
    columns = METRICS.columns(*shown, hidden=hidden, share=("graph_device_ns",), titles=FIRST)
    event = {EVENT.key: pa.array(selected.work.row[_firsts(selected.work.of, len(selected))][groups.first])}
    table = sorted_by(pa.table(data | event), [("graph_device_ns", "descending"), ("captured_graph", "ascending")])
    return Frame(
        "graphs", "Graphs", [*columns, Column(EVENT, hidden=True)], table, ("captured_graph",), "captured_graph",
        Sort("graph_device_ns", True),
    )  # fmt: skip


def parts_of(selected: SelectedReplays) -> Parts:
    graphs, time_ns = selected.replays.graphs, _node_times(selected)
    found: dict[int, Repeated | None] = {}
    for graph in np.unique(selected.graph).tolist():
        nodes = graphs.nodes(graph)
        token = group(graphs.kind[nodes].astype(np.int64), graphs.name[nodes].astype(np.int64)).of
        found[graph] = repeated_part(token, time_ns[nodes])
    return found


def nodes_table(trace: TraceTable, selected: SelectedReplays, parts: Parts) -> Frame:
    """Returns the nodes of each graph in order. Times are summed over all replays with the same nodes."""
    work = selected.work
    known = np.flatnonzero(work.node != MISSING)
    groups = group(work.node[known])
    order = np.argsort(work.node[known][groups.first], kind="stable")
    first = known[groups.first][order]
    graph, node = work.graph[first], work.node[first]
    total, count = groups.sum(work.dur_ns[known])[order], groups.count()[order]
    labels = labels_of(selected.replays)
    all_of = sum_by(work.graph, work.dur_ns, len(labels))
    names = trace.strings.take(trace.name[work.row[first]].astype(np.int64))
    place = node - selected.replays.graphs.begin[graph]
    data = {
        "captured_graph": pa.array([labels[each] for each in graph.tolist()], pa.string()),
        "graph_node": pa.array(place + 1),
        "name": names,
        "node_operator": _scope_names(trace, selected, work.operator[first]),
        "node_module": _modules(_scope_names(trace, selected, work.module[first])),
        "node_mean_ns": pa.array(total / np.maximum(count, 1)),
        "node_total_ns": pa.array(total),
        "node_share": pa.array(ratio(total, all_of[graph])),
        "node_replays": pa.array(count),
        "node_repeat": _repeat_of(selected, parts, node),
        "node_way": pa.array([WAY_TEXTS[each] for each in work.way[first].tolist()], pa.string()),
        "start_ns": pa.array(trace.start_ns[work.row[first]]),
        "dur_ns": pa.array(work.dur_ns[first]),
        EVENT.key: pa.array(work.row[first]),
    }
    readable = pa.array(readable_names(names.to_pylist()), pa.large_string())
    if readable.null_count < len(readable):
        data["readable"] = readable
    shown = [key for key in data if key != EVENT.key and data[key].null_count < max(1, len(first))]
    columns = [*METRICS.columns(*shown, hidden=("readable", *FIRST), titles=FIRST), Column(EVENT, hidden=True)]
    return Frame("graph_nodes", "Nodes of graphs", columns, pa.table(data), ("captured_graph", "graph_node"), "name")


def replays_table(selected: SelectedReplays) -> Frame:
    """Returns all selected replays, sorted by time."""
    labels = labels_of(selected.replays)
    known = selected.call != MISSING
    data = {
        "captured_graph": pa.array([labels[each] for each in selected.graph.tolist()], pa.string()),
        "start_ns": pa.array(selected.start_ns),
        "dur_ns": pa.array(selected.end_ns - selected.start_ns),
        "graph_device_ns": pa.array(selected.device_ns),
        "graph_nodes": pa.array(selected.nodes),
        "replay_node_gaps_ns": pa.array(selected.node_gaps_ns),
        "replay_gap_ns": pa.array(selected.gap_ns, mask=selected.gap_ns == MISSING),
        "graph_launch_ns": pa.array(selected.launch_ns, mask=~known),
        EVENT.key: pa.array(selected.work.row[_firsts(selected.work.of, len(selected))]),
    }
    titles = {"graph_launch_ns": "Launch", "dur_ns": "Takes"}
    columns = METRICS.columns(*(key for key in data if key != EVENT.key), titles=titles)
    return Frame(
        "graph_replays", "Replays", [*columns, Column(EVENT, hidden=True)], pa.table(data), ("event",), "captured_graph",
        Sort("start_ns", False),
    )  # fmt: skip


def _firsts(of: Int64, count: int) -> Int64:
    found = np.zeros(count, np.int64)
    found[of[::-1]] = np.arange(len(of))[::-1]
    return found


def _most(selected: SelectedReplays, count: int) -> tuple[npt.NDArray[np.intp], Int64]:
    work = selected.work
    known = sum_by(work.graph, np.where(work.operator != MISSING, work.dur_ns, 0), count)
    by_way = np.zeros((count, len(Way)), np.int64)
    np.add.at(by_way, (work.graph, work.way), work.dur_ns)
    return by_way.argmax(axis=1), known


def _around(trace: TraceTable, selected: SelectedReplays, groups: Groups) -> tuple[pa.Array, pa.Array, pa.Array]:
    call = selected.call.astype(np.int32)
    lines = code_lines(trace)
    phase = trace.strings.take(_commonest(groups, annotation_around(trace, call)))
    module = trace.strings.take(_commonest(groups, module_around(trace, call)))
    line = _commonest(groups, lines.of[call])
    return phase, _modules(module), lines.texts.take(pa.array(line, mask=line == MISSING))


def _commonest(groups: Groups, values: npt.NDArray[np.integer]) -> Int64:
    pairs = group(groups.of, values.astype(np.int64))
    order = np.lexsort((-pairs.first, pairs.count()))
    found = np.full(len(groups), MISSING, np.int64)
    found[groups.of[pairs.first[order]]] = values[pairs.first[order]]
    return found


def _scope_names(trace: TraceTable, selected: SelectedReplays, scope: npt.NDArray[np.integer]) -> pa.Array:
    names = np.append(selected.scopes.name, np.int32(MISSING))[scope]
    return trace.strings.take(names.astype(np.int64))


def _modules(names: pa.Array) -> pa.Array:
    return pa.array([None if each is None else module_label(each) for each in names.to_pylist()], pa.large_string())


def _node_times(selected: SelectedReplays) -> Int64:
    return sum_by(selected.work.node, selected.work.dur_ns, len(selected.replays.graphs.kind))


def _in_repeats(selected: SelectedReplays, number: Int64, repeated: list[Repeated | None], device: Int64) -> pa.Array:
    begin = selected.replays.graphs.begin
    until = np.append(0, np.cumsum(_node_times(selected)))
    found: list[float | None] = []
    for graph, part, whole in zip(number.tolist(), repeated, device.tolist(), strict=True):
        at = int(begin[graph])
        inside = 0 if part is None else int(until[at + part.end] - until[at + part.begin])
        found.append(None if part is None or not whole else inside / whole)
    return pa.array(found, pa.float64())


def _repeat_of(selected: SelectedReplays, parts: Parts, node: npt.NDArray[np.integer]) -> pa.Array:
    begin = selected.replays.graphs.begin
    found = np.zeros(len(selected.replays.graphs.kind), np.int64)
    for graph, part in parts.items():
        if part is not None:
            at = int(begin[graph]) + part.begin
            found[at : at + part.length * part.count] = np.repeat(np.arange(part.count) + 1, part.length)
    return pa.array(found[node], mask=found[node] == 0)
