"""Merged call tree of one profile.

Calls with equal paths are one node. The first level contains training stages. The next levels contain modules
and operators. The leaves are kernels, copies and memsets. The total time of a node is its self time plus the total times
of its children.
"""

from __future__ import annotations

import re
from functools import partial

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.annotations import launched_by
from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.forest import Forest
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.scope_calls import RecordedCalls, VirtualCalls, virtual_calls
from tb_plugin.analysis.range_patterns import BACKWARD, DATALOADER, OPTIMIZER, module_label
from tb_plugin.analysis.range_patterns import name_matches as in_names
from tb_plugin.analysis.range_traces import is_range_trace
from tb_plugin.analysis.selection import Selection
from tb_plugin.analysis.stack_frames import labels_of, stack_frames
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import group, places_of
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit, innermost_at, nest, self_time
from tb_plugin.views.diff.metrics import METRICS

PHASES = ("Data loading", "Forward", "Backward", "Optimizer", "Without a recorded call")
"""Phases in the order of a training step. Forward also includes all other host work, such as loss and copies."""
_LOADING, _FORWARD, _BACKWARD, _OPTIMIZER, _UNCALLED = range(len(PHASES))
MAX_NODES = 50_000
"""Maximum number of nodes; those with most time are included. A node never has more time than its ancestors."""


class _Rows(msgspec.Struct, frozen=True, eq=False):
    parent: Int64
    """Index of the parent row. -1 for training stages; in traces with only ranges, -1 for top-level ranges."""
    kind: Int64
    name: Int64
    texts: pa.Array
    start_ns: Int64
    host_ns: Int64
    device_ns: Int64
    is_call: Bool
    """False for calls that the trace only contains in a CUDA graph capture."""


def call_tree(trace: TraceTable, selection: Selection) -> Frame:
    """Returns one row per node. Parents come before children, and siblings are sorted by first occurrence.

    ``tree_node`` is the index of the node, and ``parent_node`` is the index of the node's parent (-1 = none).
    ``host_ns`` and ``device_ns`` are sums over calls and threads, and include all descendants. ``host_ns`` excludes
    time in other stages, such as a backward pass inside a module.
    """
    rows = _only_ranges(trace, selection) if is_range_trace(trace) else _rows(trace, selection)
    nodes = group(Forest(rows.parent.astype(np.int32)).paths(rows.kind, rows.name))
    parent = rows.parent[nodes.first]
    parent = np.where(parent == MISSING, MISSING, nodes.of[parent])
    hop = parent.astype(np.int32)
    forest = Forest(hop)
    host = forest.sums(nodes.sum(rows.host_ns))
    device = forest.sums(nodes.sum(rows.device_ns))
    calls, there = nodes.sum(rows.is_call.astype(np.int64)), nodes.count()
    phase = rows.kind[nodes.first] == MISSING
    # The calls of a stage are those of its children; empty stages are omitted.
    beneath = np.zeros(len(nodes), np.int64)
    below = parent != MISSING
    np.add.at(beneath, parent[below], calls[below])
    calls = np.where(phase, beneath, calls)
    filled = np.isin(np.arange(len(nodes)), parent[below])
    kept = _largest(np.where(phase, filled, there > 0), host + device, forest.depth)
    order = kept[np.lexsort((rows.start_ns[nodes.first][kept], forest.depth[kept]))]
    position = places_of(order, len(nodes)).astype(np.int64)
    first = nodes.first[order]
    data = pa.table(
        {
            "tree_node": pa.array(np.arange(len(order))),
            "parent_node": pa.array(position[parent[order]]),
            "node_kind": pa.array([_kind(int(kind)) for kind in rows.kind[first]], pa.string()),
            "name": pa.array(_names(rows, first), pa.string()),
            "calls": pa.array(calls[order]),
            "host_ns": pa.array(host[order]),
            "device_ns": pa.array(device[order]),
        }
    )
    return Frame("call_tree", "Call tree", METRICS.columns(*data.column_names), data, ("tree_node",), "name")


def _only_ranges(trace: TraceTable, selection: Selection) -> _Rows:
    frames = stack_frames(trace, "both", "none")
    labels = labels_of(trace)
    return _Rows(
        parent=frames.parent.astype(np.int64),
        kind=trace.kind[frames.row].astype(np.int64),
        name=labels.of[trace.name[frames.row]].astype(np.int64),
        texts=labels.texts,
        start_ns=trace.start_ns[frames.row],
        host_ns=np.where(selection.rows[frames.row], frames.own_ns, 0),
        device_ns=np.zeros(len(frames.row), np.int64),
        is_call=np.ones(len(frames.row), np.bool_),
    )


def _rows(trace: TraceTable, selection: Selection) -> _Rows:
    named = {
        _LOADING: trace.strings.where(lambda text: DATALOADER.match(text) is not None)[trace.name],
        _OPTIMIZER: trace.strings.where(lambda text: OPTIMIZER.match(text) is not None)[trace.name],
        _BACKWARD: trace.strings.where(lambda text: BACKWARD.match(text) is not None)[trace.name],
    }
    plain = of_kind(trace.kind, EventKind.OPERATOR, EventKind.MODULE)
    ranges, words = trace.kind == EventKind.ANNOTATION, trace.recorder.operators
    back = ranges & in_names(trace, words.going_back)
    named[_BACKWARD] |= back
    named[_OPTIMIZER] |= ranges & in_names(trace, words.ending)
    marker = ranges & (named[_LOADING] | named[_OPTIMIZER] | back)
    host = np.flatnonzero(selection.rows & (plain | marker))
    start, end = trace.start_ns[host], trace.ends(host)
    nesting = nest(trace.track[host], start, end)
    parent = nesting.parent
    own = np.full(len(host), MISSING, np.int32)
    own[named[_BACKWARD][host] | (trace.forward[host] != MISSING)] = _BACKWARD
    own[named[_OPTIMIZER][host]] = _OPTIMIZER
    own[named[_LOADING][host]] = _LOADING
    work = selection.of(trace, *DEVICE_WORK)
    source = launched_by(trace, work)
    track = np.where(source == MISSING, MISSING, trace.track[source]).astype(np.int32)
    owner = innermost_at(trace.track[host], start, end, parent, track, trace.start_ns[source])
    owner[source == MISSING] = MISSING
    replayed, scopes = _replayed(trace, work, owner, parent, trace.name[host]), origins_of(trace).scopes
    owner = np.where(replayed.owner == MISSING, owner, replayed.owner)
    parent = replayed.with_virtual(parent, replayed.parent)
    own = replayed.with_virtual(own, _phases_of(trace)[replayed.scope])
    phase = inherit(own, parent)
    phase[phase == MISSING] = _FORWARD
    # If the training stage changes, the call moves out of its parent.
    stays = (parent != MISSING) & (phase == phase[parent])
    above = np.where(stays, parent + len(PHASES), phase)

    phases = np.arange(len(PHASES))
    return _Rows(
        parent=np.concatenate(
            (np.full(len(PHASES), MISSING), above, np.where(owner == MISSING, _UNCALLED, owner + len(PHASES)))
        ).astype(np.int64),
        kind=np.concatenate(
            (np.full(len(PHASES), MISSING), trace.kind[host], scopes.kind[replayed.scope], trace.kind[work])
        ).astype(np.int64),
        name=np.concatenate((phases, trace.name[host], scopes.name[replayed.scope], trace.name[work])).astype(np.int64),
        texts=trace.strings.array,
        start_ns=np.concatenate(
            (phases, start, _begins(replayed, trace.start_ns[work], len(host)), trace.start_ns[work])
        ),
        host_ns=np.concatenate(
            (
                0 * phases,
                self_time(start, end, nesting.parent, nesting.overlaps),
                np.zeros(len(replayed) + len(work), np.int64),
            )
        ),
        device_ns=np.concatenate((0 * phases, np.zeros(len(parent), np.int64), trace.dur_ns[work])),
        is_call=np.concatenate((phases >= 0, np.arange(len(parent)) < len(host), np.ones(len(work), np.bool_))),
    )


def _replayed(trace: TraceTable, work: Int64, owner: Int32, parent: Int32, names: Int32) -> VirtualCalls:
    origins = origins_of(trace)
    scopes = origins.scopes
    is_visible = of_kind(scopes.kind, EventKind.OPERATOR, EventKind.MODULE)
    is_visible |= (scopes.kind == EventKind.ANNOTATION) & (_phases_of(trace) != MISSING)
    recorded = RecordedCalls(parent, names.astype(np.int64), owner)
    return virtual_calls(
        trace, work, origins.at(work), recorded, is_visible, scopes.name.astype(np.int64), counted=False
    )


def _phases_of(trace: TraceTable) -> Int32:
    scopes = origins_of(trace).scopes
    phases = np.where(scopes.is_backward, _BACKWARD, MISSING).astype(np.int32)
    if len(scopes):
        for phase, pattern in ((_BACKWARD, BACKWARD), (_OPTIMIZER, OPTIMIZER), (_LOADING, DATALOADER)):
            phases[trace.strings.where(partial(_fits, pattern))[scopes.name]] = phase
    return phases


def _fits(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.match(text) is not None


def _begins(replayed: VirtualCalls, start_ns: Int64, count: int) -> Int64:
    begins = np.full(count + len(replayed), np.iinfo(np.int64).max)
    owned = replayed.owner != MISSING
    np.minimum.at(begins, replayed.owner[owned], start_ns[owned])
    parent = np.concatenate((np.full(count, MISSING, np.int32), replayed.parent))
    for level in Forest(parent).levels[:0:-1]:
        np.minimum.at(begins, parent[level], begins[level])
    return begins[count:]


def _largest(wanted: Bool, time_ns: Int64, depth: Int32) -> Int64:
    found = np.flatnonzero(wanted)
    if len(found) <= MAX_NODES:
        return found
    ranked = found[np.lexsort((depth[found], -time_ns[found]))]
    return np.sort(ranked[:MAX_NODES])


def _kind(kind: int) -> str:
    return "phase" if kind == MISSING else EventKind(kind).name.lower()


def _names(rows: _Rows, first: Int64) -> list[str]:
    is_phase = rows.kind[first] == MISSING
    texts = rows.texts.take(pa.array(np.where(is_phase, 0, rows.name[first]))).to_pylist() if len(rows.texts) else []
    return [
        PHASES[name] if phase else module_label(text)
        for phase, name, text in zip(is_phase.tolist(), rows.name[first].tolist(), texts, strict=True)
    ]
