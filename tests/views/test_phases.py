"""Phases: what lies in the calls of annotations, on their threads, on those that work for them, and on the device."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis import annotations
from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, analysis, kernel, part, paths, row, rows, trace
from tests.conftest import UNLIKE, sample
from tests.depth import examples, needs_time
from tests.views.phase_recount import Recount, launched_by


def tree(table: TraceTable, **params: Any) -> dict[tuple[str, ...], dict[str, Any]]:
    """The nodes by their path."""
    payload: Any = part(table, "phases", **params).payloads["tree"]
    return dict(zip(paths(payload.rows, payload.parent, "phase"), payload.rows, strict=True))


def training() -> TraceBuilder:
    """A step in microseconds: forward launches 10 on the device, and waits in backward() for a thread that launches 30."""
    builder = trace().step(1, 0, 100).annotation("forward", 10, 20)
    builder.op("aten::mm", 12, 5, sequence=5).launches(kernel("fw", 10, 20))
    builder.annotation("backward", 40, 40)
    builder.op("autograd::engine::evaluate_function: MmBackward0", 45, 30, tid=2, sequence=5, forward_thread=1)
    builder.annotation("hook", 50, 10, tid=2).launches(kernel("bw", 30, 55), at=52)
    return builder.annotation("Optimizer.step#SGD.step", 85, 10)


def test_calls_of_modules_that_were_recorded_as_ranges_are_phases_beside_their_backward_pass() -> None:
    def recorded(with_python: bool) -> TraceTable:
        builder = trace().step(1, 0, 100).event("user_annotation", "nn.Module: Net", 5, 20, 1, 1)
        builder.event("user_annotation", "nn.Module: fc (Linear)", 10, 10, 1, 1).op("aten::mm", 12, 5, sequence=5)
        builder.annotation("nn.Module backward: Net", 40, 30)
        return (builder.module("Net", 4, 30) if with_python else builder).table()

    step, net = "ProfilerStep#1", "nn.Module: Net"
    for with_python, modules in ((False, ["Net", "fc (Linear)"]), (True, ["Net_0"])):
        table = recorded(with_python)
        assert {path: node["host_total_ns"] for path, node in tree(table).items()} == {
            (step,): 100_000,
            (step, net): 20_000,
            (step, net, "nn.Module: fc (Linear)"): 10_000,
            (step, "nn.Module backward: Net"): 30_000,
        }
        assert [row["module"] for row in rows(table, "modules")] == modules


@pytest.mark.parametrize("steps", [0, 1])
def test_shares_are_called_after_what_they_are_of(steps: int) -> None:
    builder = trace().annotation("forward", 0, 10)
    found = part((builder.step(1, 0, 20) if steps else builder).table(), "phases").frames["phases"]
    titles = {column.metric.key: column.metric.title for column in found.columns}
    assert titles["phase_step_ratio"] == ("Share of steps" if steps else "Share of trace")


def test_what_the_autograd_engine_does_lies_in_the_annotation_around_backward() -> None:
    table = training().table()
    assert row(table, "phases", phase="backward") | {"phase_device_ratio": 0} == {
        "phase": "backward", "calls": 1, "host_total_ns": 40_000, "phase_step_ratio": 0.4,
        "phase_device_ns": 30_000, "phase_device_ratio": 0, "phase_backward_ns": 0, "phase_backward_host_ns": 0,
        "phase_communication_ns": 0, "phase_idle_ns": 15_000, "phase_threads": 1,
    }  # fmt: skip
    found = row(table, "phases", phase="forward")
    assert (found["phase_device_ns"], found["phase_backward_ns"], found["phase_backward_host_ns"]) == (
        10_000,
        30_000,
        30_000,
    )
    assert found["phase_device_ratio"] == 0.25 and found["phase_idle_ns"] == 10_000
    step = row(table, "phases", phase="ProfilerStep#1")
    assert (step["phase_device_ns"], step["phase_backward_ns"], step["phase_step_ratio"]) == (40_000, 30_000, 1.0)
    assert [*tree(table)] == [
        ("ProfilerStep#1",), ("ProfilerStep#1", "forward"), ("ProfilerStep#1", "backward"),
        ("ProfilerStep#1", "backward", "hook"), ("ProfilerStep#1", "Optimizer.step#SGD.step"),
    ]  # fmt: skip


def test_a_phase_on_two_threads_is_a_sum_on_the_host_and_a_union_on_the_device() -> None:
    builder = trace().annotation("work", 0, 50).launches(kernel("a", 20, 10), at=1)
    builder.annotation("work", 0, 30, tid=2).launches(kernel("b", 20, 20, stream=8), at=2)
    table = builder.table()
    found = row(table, "phases", phase="work")
    assert (found["calls"], found["phase_threads"], found["host_total_ns"]) == (2, 2, 80_000)
    assert (found["phase_device_ns"], found["phase_idle_ns"]) == (30_000, 20_000)
    (column,) = (c for c in part(table, "phases").frames["phases"].columns if c.metric.key == "phase_threads")
    assert not column.hidden
    builder.annotation("work", 5, 10).on_device(kernel("c", 5, 12, device=1), corr=1_000_001)
    found = row(builder.table(), "phases", phase="work")
    assert (found["host_total_ns"], found["phase_device_ns"]) == (80_000, 35_000), "nested once, devices add up"


def test_crossing_annotations_each_keep_what_was_launched_in_them() -> None:
    builder = trace().annotation("one", 0, 20).annotation("two", 10, 20).launches(kernel("k", 5, 40), at=15)
    found = {r["phase"]: r["phase_device_ns"] for r in rows(builder.table(), "phases")}
    assert found == {"one": 5_000, "two": 5_000}
    assert [*tree(builder.table())] == [("one",), ("two",)]


@pytest.mark.parametrize(("bound", "most"), [("MOST_PAIRS", 1), ("MOST_LEVELS", 1)])
def test_one_bound_for_the_table_and_for_views_of_a_phase(
    monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    builder = trace().annotation("outer", 0, 20).annotation("inner", 1, 10).launches(kernel("k", 5, 40), at=5)
    whole = builder.table()
    assert {r["phase"]: r["phase_device_ns"] for r in rows(whole, "phases")} == {"outer": 5_000, "inner": 5_000}
    assert "phases_deep" not in notices(whole)
    monkeypatch.setattr(annotations, bound, most)
    table = builder.table()
    assert {r["phase"]: r["phase_device_ns"] for r in rows(table, "phases")} == {"outer": 5_000, "inner": 0}
    assert [r["name"] for r in rows(table, "kernels", phase="outer")] == ["k"]
    assert rows(table, "kernels", phase="inner") == []
    assert notices(table)["phases_deep"].figures[0].value == 1


def notices(table: TraceTable) -> dict[str, Any]:
    found: Any = part(table, "overview").payloads["data_quality"]
    return {notice.rule: notice for notice in found.notices}


def test_communication_inside() -> None:
    builder = trace().annotation("sync", 0, 20).launches(kernel("ncclDevKernel_AllReduce", 9, 40), kernel("mm", 3, 60))
    found = row(builder.table(), "phases", phase="sync")
    assert (found["phase_device_ns"], found["phase_communication_ns"]) == (12_000, 9_000)
    host = trace().annotation("sync", 0, 20).annotation("gloo:all_reduce", 15, 20, tid=3).op("aten::add", 1, 2).table()
    assert row(host, "phases", phase="sync")["phase_communication_ns"] == 5_000


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", {"execute_*_context_*": 2, "decode[bs=32]": 1, "step": 3}),
        ("_.*", {"execute*": 2, "decode[bs=32]": 1, "step": 3}),
        (r"[^\s\S]", {"execute_8192_context_9": 1, "execute_4_context_1": 1, "decode[bs=32]": 1, "step": 3}),
        (".*", {"*": 6}),
    ],
)
def test_names_that_differ_in_counters_are_one_phase(pattern: str, expected: dict[str, int]) -> None:
    names = ["execute_8192_context_9", "execute_4_context_1", "decode[bs=32]", "step", "step", "step"]
    builder = trace()
    for i, name in enumerate(names):
        builder.annotation(name, 10 * i, 5)
    found = rows(builder.table(), "phases", pattern=pattern)
    assert {r["phase"]: r["calls"] for r in found} == expected
    figures: Any = part(builder.table(), "phases", pattern=pattern).payloads["names"]
    assert [f.value for f in figures.figures[:3]] == [pattern or r"\d+", 4, len(expected)]


@pytest.mark.parametrize(
    ("names", "readable"),
    [
        (["execute_context_0(0)_generation_32(32)"], "Decode step, 32 requests (vLLM)"),
        (["execute_context_1(888_788544)_generation_0(0)"], "Prefill step, 1 request (vLLM)"),
        (
            ["execute_context_1(9)_generation_0(0)", "execute_context_0(0)_generation_3(3)"],
            "Server step, 1 to 3 requests (vLLM)",
        ),
        (
            ["execute_9_context_0(sq0sk0sqsq0sqsk0)_generation_9(sq9sk9sqsq9sqsk9)"],
            "Decode step, 9 requests (vLLM or SGLang)",
        ),
        (["denoising_step_1", "denoising_step_2"], "Denoising step"),
        (["forward"], None),
    ],
)
def test_names_of_server_steps_are_readable(names: list[str], readable: str | None) -> None:
    builder = trace()
    for i, name in enumerate(names):
        builder.annotation(name, 10 * i, 5)
    (found,) = rows(builder.table(), "phases")
    assert found.get("readable") == readable
    shown: Any = part(builder.table(), "phases").payloads["tree"]
    assert shown.rows[0]["readable"] == (readable or found["phase"])


@pytest.mark.parametrize("pattern", ["(", "x" * 501])
def test_a_pattern_that_is_none_is_said(pattern: str) -> None:
    with pytest.raises(BadRequest, match="pattern"):
        part(training().table(), "phases", pattern=pattern)


def test_steps() -> None:
    builder = trace().step(1, 0, 100).annotation("a", 10, 10).launches(kernel("k", 4, 30))
    builder.step(2, 100, 50).annotation("a", 140, 30).launches(kernel("k", 6, 200), at=145)
    table = builder.table()
    assert rows(table, "phases", "phase_steps", steps=("2",)) == [
        {"phase": "ProfilerStep#*", "step": "2", "phase_host_in_step_ns": 50_000, "phase_device_in_step_ns": 6_000},
        {"phase": "a", "step": "2", "phase_host_in_step_ns": 10_000, "phase_device_in_step_ns": 6_000},
    ]
    found: Any = part(table, "phases").payloads["phase_host_in_step"]
    assert found.x == ["1", "2"]
    assert {line.metric.title: line.values for line in found.lines} == {
        "a": [10_000, 10_000],
        "ProfilerStep#*": [1e5, 5e4],
    }
    long = trace()
    for i in range(130):
        long.step(i, 10 * i, 10)
    bars: Any = part(long.table(), "phases").payloads["phase_host_in_step"]
    assert (len(bars.x), bars.x[0], bars.x[-1]) == (44, "0 to 2", "129")
    assert bars.lines[0].values == [10_000] * 44


def test_a_trace_without_annotations_says_how_to_get_them() -> None:
    missing = analysis("phases").missing(trace().op("a", 0, 1).table())
    assert missing is not None and "record_function" in missing.enable


def test_other_views_are_limited_to_a_phase() -> None:
    table = training().module("Net", 10, 20).module("Loss", 82, 1, number=1).op("aten::add_", 86, 2).table()

    def names(view: str, phase: str) -> set[str]:
        return {r["module" if view == "modules" else "name"] for r in rows(table, view, phase=phase)}

    assert names("operators", "forward") == {"aten::mm"}
    assert names("operators", "backward") == {"autograd::engine::evaluate_function: MmBackward0"}
    assert names("operators", "Optimizer.step#SGD.step") == {"aten::add_"}
    assert (names("kernels", "forward"), names("kernels", "backward")) == ({"fw"}, {"bw"})
    assert names("kernels", "Optimizer.step#SGD.step") == set()
    assert names("modules", "forward") == {"Net_0"}, "begins with the phase, and does not outlive it"
    assert {r["phase"] for r in rows(table, "phases", phase="backward")} == {"backward", "hook"}
    limited = part(table, "operators", phase="forward")
    assert limited.coverage.phase == "forward" and part(table, "operators").coverage.phase is None
    assert {r["name"] for r in rows(table, "events", "instances", where=(("phase", "backward"),))} == {"backward"}
    with pytest.raises(BadRequest, match="No such phase: sideways") as error:
        part(table, "operators", phase="sideways")
    assert "forward" in error.value.do


def test_what_begins_with_a_phase_and_outlives_it_lies_around_it() -> None:
    table = trace().op("outer", 0, 30).annotation("inner", 0, 10).op("within", 0, 5).op("late", 10, 5).table()
    assert {r["name"] for r in rows(table, "operators", phase="inner")} == {"within"}


moments = st.tuples(st.integers(0, 60), st.integers(0, 25))


@st.composite
def traces(draw: st.DrawFn) -> TraceTable:
    """Crossing annotations and operators on three threads, forward and backward ties, and work with and without launch."""
    builder = trace()
    for at, dur in draw(st.lists(moments, max_size=2)):
        builder.step(at, at, dur)
    for at, dur in draw(st.lists(moments, max_size=8)):
        name = draw(st.sampled_from(("a", "b1", "b22", "c3", "gloo:all_reduce")))
        builder.annotation(name, at, dur, tid=draw(st.integers(1, 3)))
    for at, dur in draw(st.lists(moments, max_size=7)):
        ids: dict[str, Any] = {"sequence": draw(st.integers(0, 2)), "forward_thread": draw(st.integers(0, 1))}
        builder.op("op", at, dur, ext=draw(st.integers(1, 5)), tid=draw(st.integers(1, 3)), **ids)
    for at, dur in draw(st.lists(moments, max_size=4)):
        builder.call(at, dur, corr=draw(st.integers(1, 5)), tid=draw(st.integers(1, 3)))
    for at, dur in draw(st.lists(moments, max_size=7)):
        name, device = draw(st.sampled_from(("gemm", "ncclDevKernel_AllReduce"))), draw(st.integers(0, 1))
        work = kernel(name, dur, at, device=device, stream=draw(st.integers(7, 8)))
        builder.on_device(work, ext=draw(st.integers(1, 5)), corr=draw(st.integers(1, 7)))
    return builder.table()


def assert_recounted(table: TraceTable) -> None:
    """The table, the tree and the bars are those of plain Python."""
    expected = Recount(table)
    found = {r.pop("phase"): r for r in rows(table, "phases")}
    for numbers in found.values():
        numbers.pop("readable", None)
    by_phase = expected.numbers(expected.phase)
    assert found.keys() == by_phase.keys()
    for phase, numbers in by_phase.items():
        assert found[phase] == pytest.approx(numbers, rel=1e-12, abs=0), phase
    nodes = tree(table)
    by_path = expected.numbers(expected.path)
    assert nodes.keys() == by_path.keys()
    for path, node in nodes.items():
        shown = {key: value for key, value in by_path[path].items() if key in node}
        assert {key: node[key] for key in shown} == pytest.approx(shown, rel=1e-12, abs=0), path


@given(traces())
@examples(20, 500)
def test_any_phases_recounted(table: TraceTable) -> None:
    assert_recounted(table)


@given(traces(), st.sampled_from(("a", "b*", "b1", "c3")))
@examples(15, 300)
def test_a_phase_holds_what_was_launched_in_it(table: TraceTable, phase: str) -> None:
    found = {r["phase"]: r for r in rows(table, "phases")}
    if phase not in found:
        with pytest.raises(BadRequest):
            part(table, "kernels", phase=phase)
        return
    expected = Recount(table)
    own = {row for row in expected.calls if expected.phase[row] == phase}
    sources = {row: launched_by(table, row) for row in expected.work}
    inside = [row for row, at in sources.items() if at >= 0 and own & set(expected.open_at(at))]
    kernels = rows(table, "kernels", phase=phase)
    assert sum(r["calls"] for r in kernels) == len(inside)
    assert sum(r["total_ns"] for r in kernels) == sum(int(table.dur_ns[row]) for row in inside)


@needs_time
@pytest.mark.parametrize("name", UNLIKE)
def test_phases_of_samples_recounted(name: str) -> None:
    table = sample(name)
    if analysis("phases").missing(table) is None:
        assert_recounted(table)
        assert part(table, "phases").coverage == analysis("operators").part(table, Params()).coverage
