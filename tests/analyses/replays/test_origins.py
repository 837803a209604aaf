"""Origins of replayed work on traces that fit on a screen: captures, twins, annotations, and what refuses to be tied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tb_plugin.analyses.replays.origins import Origins, Way, origins_of
from tb_plugin.analyses.replays.recorded import captured_in
from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.table import TraceTable
from tests.builders import TraceBuilder, kernel, memset, trace

GRAPH = "cudaGraphLaunch"
BEGIN, END = "cudaStreamBeginCapture", "cudaStreamEndCapture"


def path(table: TraceTable, origins: Origins, scope: int) -> str:
    """The names of a scope and of all around it, outermost first."""
    names = []
    while scope != MISSING:
        names.append(table.strings[int(origins.scopes.name[scope])])
        scope = int(origins.scopes.parent[scope])
    return " > ".join(names[::-1])


def told(table: TraceTable) -> list[tuple[str, str, str]]:
    """Name, scopes and way of each piece of replayed work, by time."""
    origins = origins_of(table)
    return [
        (table.strings[int(table.name[row])], path(table, origins, int(scope)), Way(way).name)
        for row, scope, way in zip(origins.work, origins.scope, origins.way, strict=True)
    ]


def captured(at: int = 0, *operators: str, names: bool = False) -> TraceBuilder:
    """A capture in which each operator launches one kernel (hip: with its name) in a module, with nothing on the device."""
    built = trace().call(at, 1, name=BEGIN).module("Net", at + 2, 10 * len(operators), id=1)
    for i, name in enumerate(operators):
        start = at + 3 + 10 * i
        built.op(name, start, 5, shapes=[[at + 2, 8]])
        args = {"kernel": f"{name}_kernel", "grid": [4, 1, 1], "block": [64, 1, 1]} if names else {}
        built.event("cuda_runtime", "cudaLaunchKernel", start + 1, 1, 1, 1, correlation=start, **args)
    return built.call(at + 4 + 10 * len(operators), 1, name=END)


def replayed(built: TraceBuilder, at: int, *kernels: str, **args: object) -> TraceBuilder:
    """A launch of a graph, alone on its thread, and its kernels one after the other."""
    work = [
        kernel(name, 2, at=at + 10 + 3 * i, grid=[4, 1, 1], block=[64, 1, 1], **args) for i, name in enumerate(kernels)
    ]
    return built.python("serve.py(3): run", at, 8).launches(*work, at=at + 1, dur=2, name=GRAPH)


def test_the_capture_in_the_same_trace_tells() -> None:
    table = replayed(captured(0, "aten::mm", "aten::add"), 100, "gemm", "add").table()
    assert told(table) == [
        ("gemm", "nn.Module: Net_0 > aten::mm", "CAPTURE"),
        ("add", "nn.Module: Net_0 > aten::add", "CAPTURE"),
    ]


def test_another_recording_tells_and_a_wrong_one_is_refused() -> None:
    table = replayed(trace(), 100, "aten::mm_kernel", "aten::add_kernel").table()
    whole = captured(0, "aten::mm", "aten::add", names=True)
    strings = replayed(whole, 100, "aten::mm_kernel", "aten::add_kernel").table()
    assert [way for *_, way in told(table)] == ["GRAPH", "GRAPH"]
    other = replace(captured_in(captured(0, "aten::mm", "aten::add", names=True).table()), source="capture")
    assert len(other.sequences) == 1 and [way for *_, way in told(strings)] == ["CAPTURE", "CAPTURE"]


def test_a_wrong_capture_is_refused_with_the_first_difference() -> None:
    wrong = replayed(
        captured(0, "aten::mm", "aten::add", names=True), 100, "aten::mm_kernel", "aten::mul_kernel"
    ).table()
    assert [way for *_, way in told(wrong)] == ["GRAPH", "GRAPH"]
    (refusal,) = origins_of(wrong).refusals
    assert refusal.position == 1
    assert refusal.text == "Node 2: the capture launches aten::add_kernel, the replay ran aten::mul_kernel."
    short = replayed(captured(0, "aten::mm", "aten::add"), 100, "gemm").table()
    (refusal,) = origins_of(short).refusals
    assert refusal.text == "The capture has 2 nodes, the replay ran 1; as far as both go they agree."


def test_a_memset_is_no_kernel() -> None:
    built = captured(0, "aten::mm").python("serve.py(3): run", 100, 8)
    table = built.launches(memset(2, at=120), at=101, dur=2, name=GRAPH).table()
    (refusal,) = origins_of(table).refusals
    assert refusal.text == "Node 1: the capture launches a kernel, the replay ran Memset (Device)."


def test_the_same_work_run_eagerly_tells() -> None:
    names = [f"k{i}" for i in range(8)]
    built = trace()
    for i, name in enumerate(names):
        built.op(f"aten::op{i}", 10 * i, 5).launches(kernel(name, 2, grid=[4, 1, 1], block=[64, 1, 1]))
    table = replayed(built, 200, *names).table()
    assert told(table)[-8:] == [(f"k{i}", f"aten::op{i}", "EAGER") for i in range(8)]
    assert np.array_equal(origins_of(table).at(origins_of(table).work), origins_of(table).scope)
