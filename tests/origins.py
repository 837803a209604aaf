"""Traces in which a step runs eagerly and later ones replay it, with the origins of their work told by hand."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.backward import backward_operators
from tb_plugin.analysis.graphs.origins import Origins, Way, origins_of
from tb_plugin.analysis.graphs.replays import replays_of
from tb_plugin.analysis.selection import select_rows
from tb_plugin.lib.groupby import places_of
from tb_plugin.lib.model_cache import MEMO, drop_cached
from tb_plugin.model.trace.graph_capture import Scopes
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost_at, nest
from tests.builders import TraceBuilder, kernel, memcpy, trace

GRAPH = "cudaGraphLaunch"
KINDS = (EventKind.OPERATOR, EventKind.MODULE, EventKind.PYTHON, EventKind.ANNOTATION)


def tell(table: TraceTable, origins: Origins) -> TraceTable:
    """Has the trace answer with these origins."""
    drop_cached(table, origins_of)
    MEMO.get(table, (vars(origins_of)["__wrapped__"], (), ()), lambda: origins)
    return table


def with_origins(table: TraceTable, step: str, way: Way = Way.CAPTURE, known: float = 1.0) -> TraceTable:
    """Has all replayed work stand for the work of an eager step, each graph in order; ``known``: how much of a graph."""
    row = np.flatnonzero(of_kind(table.kind, *KINDS))
    row = row[~np.isin(table.name[row], [i for i, t in enumerate(table.strings) if t.startswith("ProfilerStep")])]
    track, start, end = table.track[row], table.start_ns[row], table.ends(row)
    parent = nest(track, start, end).parent
    own = {name: np.full(len(table), MISSING, np.int32) for name in ("shapes", "types", "concrete", "stack")}
    for name, values in own.items():
        values[table.operators.row] = getattr(table.operators, name)
    every = backward_operators(table)
    scopes = Scopes(
        kind=table.kind[row],
        name=table.name[row],
        parent=parent,
        is_backward=every.of[row] != MISSING,
        is_eligible=table.matrix_eligible[row],
        row=row.astype(np.int32),
        forward=places_of(row, len(table))[np.append(every.forward, np.int32(MISSING))[every.of[row]]],
        calls=np.ones(len(row), np.int32),
        **{name if name != "concrete" else "values": values[row] for name, values in own.items()},
    )
    eager = select_rows(table, (step,)).of(table, *DEVICE_WORK)
    eager = eager[table.launch[eager] != MISSING]
    launch = table.launch[eager]
    behind = innermost_at(track, start, end, parent, table.track[launch], table.start_ns[launch])
    replays = replays_of(table)
    scope = np.full(len(replays.work), MISSING, np.int32)
    for low, high in zip(replays.begin[:-1], replays.begin[1:], strict=True):
        count = int((high - low) * known)
        scope[low : low + count] = behind[:count]
    order = np.argsort(replays.work)
    ways = np.where(scope == MISSING, Way.GRAPH, way)[order].astype(np.uint8)
    return tell(table, Origins(replays.work[order], scope[order], ways, scopes, ways))


def eager_step(at: int = 100) -> TraceBuilder:
    """One eager step of a model with two modules, forward and backward; then room for replays."""
    return (
        trace()
        .device(0)
        .step(1, at, 400)
        .python("train.py(3): step", at + 1, 390, id=1)
        .module("Net", at + 2, 98, id=2, parent=1)
        .module("Linear", at + 5, 40, id=3, parent=2)
        .op("aten::linear", at + 6, 30, shapes=[[2, 8]], sequence=1)
        .op("aten::mm", at + 8, 20, shapes=[[2, 8], [8, 4]])
        .launches(kernel("sgemm_fp16_tensorop", 11, at + 20))
        .op("aten::add_", at + 37, 5, shapes=[[2, 4]])
        .launches(kernel("add", 3, at + 40))
        .module("Act", at + 50, 40, id=4, parent=2)
        .op("aten::relu", at + 51, 20, shapes=[[2, 4]], sequence=2)
        .launches(kernel("relu", 5, at + 60))
        .op("aten::copy_", at + 110, 10)
        .launches(memcpy(7, at + 130))
        .op("autograd::engine::evaluate_function: MmBackward", at + 150, 60, tid=2, sequence=1, forward_thread=1)
        .op("MmBackward", at + 152, 50, tid=2, sequence=1, forward_thread=1)
        .op("aten::mm", at + 155, 20, tid=2, shapes=[[8, 2], [2, 4]])
        .launches(kernel("sgemm_fp16_tensorop", 13, at + 180))
    )


def replay(builder: TraceBuilder, at: int) -> TraceBuilder:
    """Adds the launch of a graph with the work of the eager step."""
    names = ("sgemm_fp16_tensorop", 11), ("add", 3), ("relu", 5), None, ("sgemm_fp16_tensorop", 13)
    work = [
        memcpy(7, at + 20 * i) if each is None else kernel(each[0], each[1], at + 20 * i)
        for i, each in enumerate(names, 1)
    ]
    return builder.launches(*work, at=at, dur=9, name=GRAPH)


def with_replays(count: int = 2) -> TraceBuilder:
    """The eager step as step 1, then steps of one replay each."""
    found = eager_step()
    for number in range(2, 2 + count):
        at = 500 * number
        found.step(number, at, 400).python("train.py(9): serve", at + 1, 300, id=10 * number)
        replay(found, at + 5)
    return found
