"""Compiled regions as nodes of the module tree."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.forest import Forest, Spans
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.host_calls import Called, HostCalls, host_calls, sums_of
from tb_plugin.analysis.selection import Selection
from tb_plugin.analysis.work.operator_work import OperatorWork
from tb_plugin.analysis.work.rates import WorkSums, no_work
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import Groups, group, sum_by
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.modules.compiled import Compiled
from tb_plugin.views.modules.module_work import called_work


class RegionNodes(msgspec.Struct, frozen=True, eq=False):
    """Tree nodes of compiled regions, each below its module. Their times exclude nested modules."""

    name: Int64
    parent: Int64
    """Index of the parent: a module node, or an earlier region node (numbered after all modules)."""
    first: Int64
    code: Int64
    """String id of the first Python call in the region; -1 = unknown."""
    sums: dict[str, Int64]
    rated: WorkSums

    def __len__(self) -> int:
        return len(self.name)


def region_nodes(
    trace: TraceTable, selection: Selection, modules: HostCalls, nodes: Groups, compiled: Compiled, work: OperatorWork
) -> RegionNodes:
    """Returns the nodes of compiled regions inside module calls. ``nodes`` has the node of each module call."""
    inside = np.flatnonzero(compiled.owner != MISSING)
    none = np.empty(0, np.int64)
    if not len(inside):
        return RegionNodes(none, none, none, none, {}, no_work(0))
    # Replayed regions have no CPU time to subtract.
    rows = np.union1d(modules.row[~modules.is_replayed], compiled.calls.row[~compiled.calls.is_replayed])
    scopes = len(origins_of(trace).scopes)
    every = host_calls(trace, selection, Called(rows, rows, np.zeros(scopes, np.bool_), np.zeros(scopes, np.int64)))
    at = np.searchsorted(rows, compiled.calls.row[inside])
    place = np.full(len(rows) + 1, MISSING, np.int64)
    place[at] = np.arange(len(at))
    parent = place[every.parent[at]].astype(np.int32)
    forest = Forest(parent)
    # Subtract the time of nested calls: regions add theirs again, modules have their own.
    own = every.host_total_ns - sum_by(
        every.parent[every.parent != MISSING], every.host_total_ns[every.parent != MISSING], len(rows)
    )
    owner = nodes.of[compiled.owner[inside]]
    name = compiled.calls.key[inside]
    groups = group(forest.paths(name, owner))
    spans = Spans(every.spans.track[at], every.spans.start[at], every.spans.end[at])
    calls = replace(
        every,
        row=rows[at],
        is_replayed=every.is_replayed[at],
        name=every.name[at],
        spans=spans,
        parent=parent,
        key=name,
        host_self_ns=every.host_self_ns[at],
        host_total_ns=forest.sums(own[at]),
        device=every.device[at],
        backward_device=every.backward_device[at],
        recomputed=every.recomputed[at],
        backward_host=every.backward_host[at],
        operators=every.operators[at],
        in_backward=every.in_backward[at],
        owner=place[every.owner],
    )
    first = groups.first
    above = parent[first]
    code = np.full(len(groups), MISSING, np.int64)
    known = np.flatnonzero(compiled.code[inside] != MISSING)[::-1]
    code[groups.of[known]] = compiled.code[inside][known]
    return RegionNodes(
        name=name[first],
        parent=np.where(above == MISSING, owner[first], len(nodes) + groups.of[above]),
        first=rows[at][first],
        code=code,
        sums=sums_of(calls, groups),
        rated=called_work(trace, calls, groups, work),
    )
