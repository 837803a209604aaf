"""Origins of replayed work on traces that fit on a screen: captures, twins, annotations, and what refuses to be tied."""

from __future__ import annotations

import json

import numpy as np
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.graphs.captures import captured_in
from tb_plugin.analysis.graphs.origins import Origins, Way, origins_of
from tb_plugin.analysis.graphs.replays import replays_of
from tb_plugin.analysis.selection import select_rows
from tb_plugin.formats.stack_files.nodes import node_stacks
from tb_plugin.model.trace.graph_capture import Captured
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, kernel, memset, trace
from tests.captured import with_other
from tests.replayed_sums import replayed_in

GRAPH = "cudaGraphLaunch"
BEGIN, END = "cudaStreamBeginCapture", "cudaStreamEndCapture"
SIZE = {"grid": [4, 1, 1], "block": [64, 1, 1]}
EIGHT = [f"k{i}" for i in range(8)]


def path(table: TraceTable, origins: Origins, scope: int) -> str:
    """The names of a scope and of all around it, outermost first."""
    names = []
    while scope != MISSING:
        names.append(table.strings[int(origins.scopes.name[scope])].removeprefix("nn.Module: "))
        scope = int(origins.scopes.parent[scope])
    return " > ".join(names[::-1])


def told(table: TraceTable) -> list[tuple[str, str, str]]:
    """Name, scopes and way of each piece of replayed work, by time."""
    origins = origins_of(table)
    return [
        (table.strings[int(table.name[row])], path(table, origins, int(scope)), Way(way).name)
        for row, scope, way in zip(origins.work, origins.scope, origins.way, strict=True)
    ]


def ways(table: TraceTable) -> set[str]:
    return {way for *_, way in told(table)}


def shapes(table: TraceTable) -> list[str]:
    """The shapes of the operator behind each piece of replayed work."""
    origins = origins_of(table)
    operator = origins.scopes.nearest(EventKind.OPERATOR)[origins.scope]
    return [table.strings[int(i)] for i in np.append(origins.scopes.shapes, MISSING)[operator]]


def captured(
    built: TraceBuilder, at: int, *operators: str, batch: int = 1, names: bool = False, layer: int = 0
) -> TraceBuilder:
    """A capture in which each operator of a module launches one kernel (which its call may name), none of which runs."""
    built.call(at, 1, name=BEGIN).module("Net", at + 2, 10 * len(operators), number=layer, id=at)
    for i, name in enumerate(operators):
        start = at + 3 + 10 * i
        built.op(name, start, 5, shapes=[[batch, 8]])
        args = {"kernel": f"{name}_kernel", **SIZE} if names else {}
        built.event("cuda_runtime", "cudaLaunchKernel", start + 1, 1, 1, 1, correlation=start, **args)
    return built.call(at + 4 + 10 * len(operators), 1, name=END)


def eager(built: TraceBuilder, at: int, *kernels: str, prefix: str = "aten", **args: object) -> TraceBuilder:
    for i, name in enumerate(kernels):
        built.op(f"{prefix}::{name}", at + 10 * i, 5).launches(kernel(name, 2, **{**SIZE, **args}))  # type: ignore[arg-type]
    return built


def replayed(built: TraceBuilder, at: int, *kernels: str, nodes: int | None = None, **args: object) -> TraceBuilder:
    """A launch of a graph, alone on its thread, and its kernels one after the other."""
    work = []
    for i, name in enumerate(kernels):
        ids = {} if nodes is None else {"graph id": nodes, "graph node id": (nodes << 32) + i}
        work.append(kernel(name, 2, at=at + 10 + 3 * i, **{**SIZE, **ids, **args}))  # type: ignore[arg-type]
    return built.python("serve.py(3): run", at, 8).launches(*work, at=at + 1, dur=2, name=GRAPH)


def test_the_capture_in_the_same_trace_tells() -> None:
    table = replayed(captured(trace(), 0, "aten::mm", "aten::add"), 100, "gemm", "add").table()
    assert told(table) == [("gemm", "Net_0 > aten::mm", "CAPTURE"), ("add", "Net_0 > aten::add", "CAPTURE")]
    assert shapes(table) == ["[[1, 8]]", "[[1, 8]]"]
    sums = replayed_in(table, select_rows(table, None)).by_scope()
    assert sums.device_ns.sum() == 4_000 and sums.pieces.sum() == 2 and sums.replays.max() == 1


def test_another_recording_tells_by_its_capture_or_by_the_same_work() -> None:
    table = replayed(trace(), 100, "aten::mm_kernel", "aten::add_kernel").table()
    assert ways(table) == {"GRAPH"}
    assert told(with_other(table, captured(trace(), 0, "aten::mm", "aten::add", names=True).table())) == [
        ("aten::mm_kernel", "Net_0 > aten::mm", "CAPTURE_TRACE"),
        ("aten::add_kernel", "Net_0 > aten::add", "CAPTURE_TRACE"),
    ]
    table = with_other(replayed(trace(), 100, *EIGHT).table(), eager(trace(), 0, *EIGHT).table())
    assert told(table) == [(name, f"aten::{name}", "CAPTURE_TRACE") for name in EIGHT]


def agreements(table: TraceTable) -> list[tuple[str, str, bool]]:
    """Source, share and use of the capture that is most like each graph without a complete match."""
    return [(each.source, str(each), each.is_used) for each in origins_of(table).agreements.values()]


def test_a_wrong_capture_is_not_used_and_says_how_much_of_it_matches() -> None:
    table = replayed(trace(), 100, "aten::mm_kernel", "aten::mul_kernel").table()
    wrong = with_other(table, captured(trace(), 0, "aten::mm", "aten::add", names=True).table())
    assert ways(wrong) == {"GRAPH"} and agreements(wrong) == [("capture.json", "1 of 2 nodes", False)]


@pytest.mark.parametrize(("operators", "kernels", "share"), [(2, 1, "1 of 2 nodes"), (1, 3, "1 of 3 nodes")])
def test_a_capture_of_another_length_is_not_used(operators: int, kernels: int, share: str) -> None:
    built = captured(trace(), 0, *["aten::mm"] * operators)
    table = replayed(built, 100, *["gemm"] * kernels).table()
    assert ways(table) == {"GRAPH"} and agreements(table) == [("", share, False)]


def test_a_memset_is_no_kernel() -> None:
    built = captured(trace(), 0, "aten::mm").python("serve.py(3): run", 100, 8)
    table = built.launches(memset(2, at=120), at=101, dur=2, name=GRAPH).table()
    assert agreements(table) == [("", "0 of 1 nodes", False)]


def test_of_several_captures_the_names_tell() -> None:
    built = captured(trace(), 0, "aten::mm", "aten::add", names=True)
    built = captured(built, 100, "aten::mm", "aten::mul", names=True)
    table = replayed(built, 200, "aten::mm_kernel", "aten::mul_kernel").table()
    assert told(table)[1] == ("aten::mul_kernel", "Net_0 > aten::mul", "CAPTURE")


def test_several_captures_tell_what_they_agree_about() -> None:
    """Servers capture a graph for each size of a batch."""
    built = captured(trace(), 0, "aten::mm", "aten::add", batch=1)
    built = captured(built, 100, "aten::mm", "aten::add", batch=2)
    table = replayed(built, 200, "gemm", "add").table()
    assert told(table) == [("gemm", "Net_0 > aten::mm", "CAPTURE"), ("add", "Net_0 > aten::add", "CAPTURE")]
    assert shapes(table) == ["", ""]
    unlike = replayed(captured(built, 300, "aten::mm", "aten::mul", batch=4), 400, "gemm", "add").table()
    assert [(path, way) for _, path, way in told(unlike)] == 2 * [("Net_0 > aten::mm", "CAPTURE"), ("", "GRAPH")]


def test_captures_that_differ_about_the_module_alone_tell_the_operator() -> None:
    """Servers capture the layers of a model one by one; nothing tells which of them a graph is of."""
    built = captured(trace(), 0, "aten::mm", "aten::add", layer=0)
    built = captured(built, 100, "aten::mm", "aten::add", layer=1)
    table = replayed(built, 200, "gemm", "add").table()
    assert told(table) == [("gemm", "aten::mm", "CAPTURE"), ("add", "aten::add", "CAPTURE")]
    assert shapes(table) == ["[[1, 8]]"] * 2
    assert set(origins_of(table).module_way.tolist()) == {Way.GRAPH} and not agreements(table)


def test_of_several_recordings_that_which_is_most_like_a_graph_says_the_share() -> None:
    table = replayed(trace(), 100, "aten::mm_kernel", "aten::mul_kernel").table()
    recorded = (
        trace().op("aten::mm", 0, 5),
        captured(trace(), 0, "aten::tanh", "aten::mul", names=True),
        captured(trace(), 0, "aten::mm", "aten::add", names=True),
    )
    files = [(captured_in(each), each.strings) for each in (built.table() for built in recorded)]
    for order in (files, files[::-1]):
        merged = table.with_captured(order, "run (3 recordings)")
        assert agreements(merged) == [("run (3 recordings)", "1 of 2 nodes", False)]


def test_work_that_ran_during_a_capture_is_no_node() -> None:
    built = trace().call(0, 1, name=BEGIN)
    built.op("aten::copy_", 2, 3).launches(kernel("ran", 1, at=5), at=3)
    built.op("aten::mm", 6, 5).call(7, 1, corr=5, name="cudaLaunchKernel").call(7, 1, corr=5, name="cuLaunchKernel")
    table = replayed(built.call(12, 1, name=END), 100, "gemm").table()
    assert told(table) == [("gemm", "aten::mm", "CAPTURE")]


def test_threads_that_work_for_a_capture_are_part_of_it() -> None:
    built = trace().call(0, 1, name=BEGIN).python("train.py(2): step", 1, 90)
    built.op("aten::mm", 2, 5, sequence=1).call(3, 1, name="cudaLaunchKernel")
    built.op("MmBackward0", 20, 9, tid=2, sequence=1, forward_thread=1)
    built.op("aten::mm", 22, 5, tid=2).call(23, 1, tid=2, name="cudaLaunchKernel")
    table = replayed(built.call(95, 1, name=END), 100, "gemm", "gemm_t").table()
    assert told(table) == [
        ("gemm", "train.py(2): step > aten::mm", "CAPTURE"),
        ("gemm_t", "train.py(2): step > MmBackward0 > aten::mm", "CAPTURE"),
    ]
    origins = origins_of(table)
    forward = origins.scopes.forward[origins.scope]
    assert forward[0] == MISSING and forward[1] == origins.scope[0]
    assert origins.scopes.is_backward[origins.scope].tolist() == [False, True]


def test_an_unknown_order_is_not_guessed() -> None:
    """On two streams without ids of nodes nothing says which kernel the first launch was."""
    built = captured(trace(), 0, "aten::mm", "aten::add")
    work = [kernel("add", 2, at=110, stream=7), kernel("gemm", 2, at=111, stream=8)]
    table = built.op("run", 100, 8, category="python_function").launches(*work, at=101, dur=2, name=GRAPH).table()
    assert ways(table) == {"GRAPH"} and agreements(table) == [("", "0 of 2 nodes", False)]


def test_the_same_work_run_eagerly_tells() -> None:
    table = replayed(eager(trace(), 0, *EIGHT), 200, *EIGHT).table()
    assert told(table) == [(name, f"aten::{name}", "EAGER") for name in EIGHT]
    twice = replayed(eager(eager(trace(), 0, *EIGHT), 100, *EIGHT), 200, *EIGHT).table()
    assert told(twice) == told(table)


def test_what_is_no_twin() -> None:
    assert ways(replayed(eager(trace(), 0, *EIGHT[:7]), 200, *EIGHT[:7]).table()) == {"GRAPH"}  # too short
    assert ways(replayed(eager(trace(), 0, *EIGHT, grid=[5, 1, 1]), 200, *EIGHT).table()) == {"GRAPH"}
    assert ways(replayed(eager(trace(), 0, *EIGHT, grid=None), 200, *EIGHT, grid=None).table()) == {"GRAPH"}
    assert ways(replayed(eager(trace(), 0, *EIGHT), 200, *EIGHT, "more").table()) == {"GRAPH"}
    unlike = eager(eager(trace(), 0, *EIGHT), 100, *EIGHT, prefix="own")
    table = replayed(unlike, 200, *EIGHT).table()
    assert ways(table) == {"GRAPH"}


def test_a_twin_beside_other_work_and_other_threads() -> None:
    built = eager(trace(), 0, "before", *EIGHT, "after")
    built.op("aten::other", 33, 2, tid=9).launches(kernel("elsewhere", 1), at=33)
    table = replayed(built, 200, *EIGHT).table()
    assert told(table) == [(name, f"aten::{name}", "EAGER") for name in EIGHT]


def test_annotations_stand_around_what_the_capture_knows() -> None:
    def replay(built: TraceBuilder) -> TraceTable:
        listed = json.dumps([{"name": "outer"}, {"name": "inner"}, 5, {"name": 7}])
        replayed(built, 100, "gemm", "add", nodes=5)
        built.events[-2]["args"] |= {"name": "layers.0", "autograd_phase": "backward"}
        built.events[-1]["args"] |= {"annotation": listed}
        return built.table()

    both = replay(captured(trace(), 0, "aten::mm", "aten::add"))
    assert told(both) == [
        ("gemm", "layers.0 > Net_0 > aten::mm", "CAPTURE"),
        ("add", "outer > inner > Net_0 > aten::add", "CAPTURE"),
    ]
    assert origins_of(both).module_way.tolist() == [Way.ANNOTATION] * 2
    alone = replay(trace())
    assert told(alone) == [("gemm", "layers.0", "ANNOTATION"), ("add", "outer > inner", "ANNOTATION")]
    assert origins_of(alone).scopes.is_backward[origins_of(alone).scope].tolist() == [True, False]


def test_python_calls_recorded_by_node() -> None:
    table = replayed(trace(), 100, "gemm", "add", nodes=5).table()
    texts = list(table.strings)

    def text_id(text: str) -> int:
        if text not in texts:
            texts.append(text)
        return texts.index(text)

    frames = "linear.py:12:forward\nmodel.py:3:run\n"
    dumped = {str(5 << 32): frames, str((5 << 32) + 1): "model.py:4:run", "x": "a:1:b", str(1 << 63): "a:1:b"}
    stacks, refused = node_stacks(dumped, text_id)
    assert refused == 2
    table = replace(table, captured=Captured(stacks=stacks), strings=StringTable(texts))
    assert told(table) == [
        ("gemm", "model.py(3): run > linear.py(12): forward", "ANNOTATION"),
        ("add", "model.py(4): run", "ANNOTATION"),
    ]


def test_graphs_are_numbered_by_their_ids_else_by_their_work() -> None:
    built = replayed(replayed(trace(), 0, "a", "b", nodes=3), 100, "a", nodes=3)
    built = replayed(built, 200, "a", "b", nodes=4)
    found = replays_of(built.table())
    assert found.graph.tolist() == [0, 0, 1] and found.node.tolist() == [0, 1, 0, 2, 3]
    built = replayed(replayed(replayed(trace(), 0, "a", "b"), 100, "a"), 200, "a", "b")
    found = replays_of(built.table())
    assert found.graph.tolist() == [0, 1, 0] and found.node.tolist() == [0, 1, 2, 0, 1]


def test_a_lost_launch_is_a_replay_and_what_cannot_be_tied_is_counted() -> None:
    built = trace().op("aten::mm", 0, 5).launches(kernel("gemm"))
    ids = {"graph id": 3}
    built.on_device(kernel("a", 1, at=10, **ids, **{"graph node id": 1}), corr=77)
    built.on_device(kernel("b", 1, at=12, **ids, **{"graph node id": 2}), corr=77)
    built.on_device(kernel("a", 1, at=20, **ids, **{"graph node id": 1}), corr=78)
    found = replays_of(built.on_device(kernel("lost", 1, at=30, **ids)).table())
    assert (found.call.tolist(), found.begin.tolist(), found.unlaunched) == ([-1, -1], [0, 2, 3], 1)
    assert found.graph.tolist() == [0, 0] and found.graphs.recorded.tolist() == [3]


def test_the_order_of_nodes_wins_over_time() -> None:
    built = captured(trace(), 0, "aten::mm", "aten::add")
    work = [
        kernel("add", 2, at=110, stream=8, **{"graph id": 3, "graph node id": 9}),
        kernel("gemm", 2, at=111, stream=7, **{"graph id": 3, "graph node id": 4}),
    ]
    table = built.python("serve.py(3): run", 100, 8).launches(*work, at=101, dur=2, name=GRAPH).table()
    assert told(table) == [("add", "Net_0 > aten::add", "CAPTURE"), ("gemm", "Net_0 > aten::mm", "CAPTURE")]


def test_a_trace_without_graphs_asks_nothing() -> None:
    table = eager(trace(), 0, *EIGHT).table()
    assert len(origins_of(table).work) == 0 and len(replays_of(table)) == 0
    assert origins_of(table).at(np.arange(3)).tolist() == [MISSING] * 3


def test_a_launch_without_work_is_no_replay() -> None:
    table = replayed(trace(), 0).op("aten::mm", 50, 5).launches(kernel("gemm")).table()
    assert len(replays_of(table)) == 0 and len(origins_of(table).work) == 0
    assert replayed_in(table, select_rows(table, None)).by_scope().device_ns.tolist() == []


def test_a_lost_launch_is_of_the_graph_of_the_others() -> None:
    built = replayed(trace(), 0, "a", "b", nodes=3)
    built.on_device(kernel("a", 1, at=50, **{"graph id": 3, "graph node id": 3 << 32}), corr=77)  # type: ignore[arg-type]
    found = replays_of(built.table())
    assert found.graph.tolist() == [0, 0] and found.node.tolist() == [0, 1, 0]


def test_piecewise_graphs_are_as_many_as_their_captures() -> None:
    """One capture for each piece of a model: they fit several graphs, and say the same of all."""
    built = trace()
    for i in range(12):
        captured(built, 100 * i, "aten::mm", "aten::add")
    for i in range(12):
        replayed(built, 2000 + 100 * i, "gemm", "add", nodes=10 + i)
    table = built.table()
    assert len(replays_of(table).graphs) == 12 and ways(table) == {"CAPTURE"}
    assert shapes(table) == ["[[1, 8]]"] * 24
