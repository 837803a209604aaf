"""Replayed work in tables and panels: the device time of the eager step, and no operator where nothing tells."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.analysis.kernel_classes import classify_kernels
from tb_plugin.model.trace.schema import DEVICE_WORK, NO_OPERATOR, EventKind, KernelClass, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, Figures, Tree
from tb_plugin.rules.matrix_units import MatrixEligible, matrix_eligible
from tests.builders import facts, kernel, part, paths, row, rows, trace
from tests.origins import GRAPH, tell, with_origins, with_replays

DEVICE = ("device_self_ns", "device_total_ns", "matrix_self_ratio", "matrix_total_ratio", "matrix_eligible")


@pytest.fixture(scope="module")
def table() -> TraceTable:
    return with_origins(with_replays().table(), "1")


def times(table: TraceTable, step: tuple[str, ...], frame: str, key: tuple[str, ...]) -> dict[tuple[Any, ...], Any]:
    found = rows(table, "operators", frame, steps=step)
    device = [name for name in DEVICE if name in found[0]]
    return {tuple(r[k] for k in key): tuple(r[name] for name in device) for r in found if r["device_total_ns"]}


@pytest.mark.parametrize(
    ("frame", "key"),
    [
        ("operators", ("name",)),
        ("operators_by_shape", ("name", "input_shape")),
        ("operators_outermost", ("name",)),
        ("stacks", ("name", "input_shape", "call_stack")),
    ],
)
def test_a_replay_has_the_device_time_of_the_eager_step(table: TraceTable, frame: str, key: tuple[str, ...]) -> None:
    eager = times(table, ("1",), frame, key)
    assert len(eager) > 2 and times(table, ("2",), frame, key) == eager


def test_calls_and_those_of_replays_are_counted_apart(table: TraceTable) -> None:
    """Two calls of the capture hold work, in each of two replays."""
    found = row(table, "operators", name="aten::mm")
    assert (found["calls"], found["replayed_calls"]) == (2, 4)
    assert found["device_self_ns"] == 3 * 24_000
    assert row(table, "operators", steps=("2", "3"), name="aten::mm")["calls"] == 0
    assert part(table, "operators").facts["operators.calls"] == 8
    outer = row(table, "operators", "operators_outermost", name="aten::linear")
    assert (outer["outer_calls"], outer["replayed_calls"], outer["device_total_ns"]) == (1, 2, 33_000)


def test_a_trace_without_known_replays_has_no_such_column() -> None:
    table = with_replays().table()
    with_origins(table, "1", known=0)
    assert "replayed_calls" not in [c.metric.key for c in part(table, "operators").frames["operators"].columns]
    assert row(table, "operators", name=NO_OPERATOR)["device_self_ns"] == 2 * 39_000


def test_what_nothing_tells_stays_without_an_operator_and_the_bar_says_how_the_rest_is_known() -> None:
    table = with_origins(with_replays().table(), "1", Way.EAGER, known=0.6)
    bar = part(table, "operators").payloads["replayed"]
    assert isinstance(bar, Breakdown)
    assert {s.metric.key: s.value for s in bar.parts} == {"way_eager": 2 * 19_000, "way_graph": 2 * 20_000}
    facts = part(table, "operators").facts
    assert facts["operators.no_operator_graph_ns"] == 40_000
    work = of_kind(table.kind, *DEVICE_WORK)
    assert sum(r["device_self_ns"] for r in rows(table, "operators")) == table.dur_ns[work].sum()
    assert {r["name"] for r in rows(table, "operators", "no_operator")} == {
        "Memcpy HtoD (Pinned -> Device)",
        "sgemm_fp16_tensorop",
    }


def test_scopes_that_are_open_around_the_launch_too_are_its_own_calls() -> None:
    """Compiled code is captured, and later replayed, inside of a region of the same name: it is one operator."""
    builder = trace().device(0).step(1, 0, 100)
    builder.op("region", 1, 50).op("compiled", 2, 40).op("aten::mm", 3, 10).launches(kernel("gemm", 5, at=20))
    builder.op("aten::mul", 20, 10).launches(kernel("mul", 3, at=30))
    builder.step(2, 200, 100).op("region", 201, 50).op("compiled", 202, 40)
    builder.launches(kernel("gemm", 5, at=220), kernel("mul", 3, at=230), at=210, name=GRAPH)
    table = with_origins(builder.table(), "1")
    eager, again = ({r["name"]: r for r in rows(table, "operators", steps=(s,))} for s in "12")
    for name, found in eager.items():
        assert (found["device_self_ns"], found["device_total_ns"]) == (
            again[name]["device_self_ns"],
            again[name]["device_total_ns"],
        )
    assert (again["region"]["calls"], again["region"]["replayed_calls"]) == (1, 0)
    (outer,) = rows(table, "operators", "operators_outermost", steps=("2",))
    assert (outer["name"], outer["outer_calls"], outer["device_total_ns"]) == ("region", 1, 8_000)


OF_MODULES = ("device_total_ns", "device_self_ns", "backward_device_total_ns", "backward_device_self_ns")


def tree(table: TraceTable, step: str) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """The device times of each place, by the path of modules."""
    found = part(table, "modules", (step,)).payloads["tree"]
    assert isinstance(found, Tree)
    named = zip(paths(found.rows, found.parent, "module"), found.rows, strict=True)
    return {path: tuple(node.get(key, 0) for key in OF_MODULES) for path, node in named}


def test_the_tree_of_a_replay_is_that_of_the_eager_step(table: TraceTable) -> None:
    eager = tree(table, "1")
    assert eager[("Net_0", "Linear_0")][0] == 14_000
    assert {path: times for path, times in tree(table, "2").items() if any(times)} == eager


def test_backward_work_counts_for_the_module_of_its_forward_operator(table: TraceTable) -> None:
    eager, again = (row(table, "modules", steps=(step,), module="Linear_0") for step in "12")
    assert eager["backward_device_self_ns"] == 13_000
    assert [again[key] for key in OF_MODULES] == [eager[key] for key in OF_MODULES]


def test_calls_and_replays_are_counted_apart(table: TraceTable) -> None:
    found = row(table, "modules", module="Linear_0")
    assert (found["calls"], found["replayed_calls"], found["device_total_ns"]) == (1, 2, 3 * 14_000)
    assert part(table, "modules").facts["modules.calls"] == 3
    assert part(table, "modules", ("2",)).facts["modules.calls"] == 0


def test_device_self_of_all_modules_is_the_device_time_that_has_a_module(table: TraceTable) -> None:
    found = rows(table, "modules")
    assert sum(r["device_self_ns"] + r["backward_device_self_ns"] for r in found) == 3 * (11 + 3 + 5 + 13) * 1_000


def test_a_module_that_is_open_around_capture_and_launch_is_one() -> None:
    builder = trace().step(1, 0, 100).module("Net", 1, 60).module("Linear", 2, 30, id=2).op("aten::mm", 3, 10)
    builder.launches(kernel("gemm", 5, at=20))
    builder.step(2, 200, 100).module("Net", 201, 60).launches(kernel("gemm", 5, at=220), at=210, name=GRAPH)
    table = with_origins(builder.table(), "1")
    assert (
        tree(table, "2")
        == tree(table, "1")
        == {("Net_0",): (5_000, 0, 0, 0), ("Net_0", "Linear_0"): (5_000, 5_000, 0, 0)}
    )
    found = row(table, "modules", steps=("2",), module="Net_0")
    assert (found["calls"], found["replayed_calls"]) == (1, 0)


def test_compiled_code_that_was_captured_has_the_work_of_its_replays() -> None:
    name = "Torch-Compiled Region: 0/0"
    builder = trace().step(1, 0, 100).op(name, 1, 50).op("triton_kernel", 3, 10).launches(kernel("triton", 5, at=20))
    builder.step(2, 200, 100).python("serve.py(1): run", 201, 50)
    builder.launches(kernel("triton", 5, at=220), at=210, name=GRAPH)
    table = with_origins(builder.table(), "1")
    found = row(table, "modules", "compiled", region="0/0")
    assert (found["calls"], found["replayed_calls"], found["device_total_ns"]) == (1, 1, 10_000)


def test_modules_that_only_a_capture_has_are_shown() -> None:
    """The capture is in another trace: the modules have no rows in this one."""
    table = with_origins(with_replays(1).table(), "1")
    origins = origins_of(table)
    none = np.full(len(origins.scopes), -1, np.int32)
    tell(table, replace(origins, scopes=replace(origins.scopes, row=none)))
    assert {r["module"]: r["device_total_ns"] for r in rows(table, "modules", steps=("2",))} == {
        "Net_0": 19_000,
        "Linear_0": 14_000,
        "Act_0": 5_000,
    }


@pytest.fixture(scope="module")
def half() -> TraceTable:
    return with_origins(with_replays().table(), "1", Way.EAGER, known=0.6)


def last_kernel(table: TraceTable, name: str) -> int:
    (found,) = (table.strings.find(name),)
    return int(np.flatnonzero((table.name == found) & (table.kind == EventKind.KERNEL))[-1])


def test_kernels_by_launch_name_the_operator_of_the_capture(table: TraceTable) -> None:
    found = rows(table, "kernels", "kernels_by_launch")
    assert {(r["name"], r["operator"], r["calls"]) for r in found} == {
        ("sgemm_fp16_tensorop", "aten::mm", 6),
        ("add", "aten::add_", 3),
        ("relu", "aten::relu", 3),
    }


def test_the_nearest_operator_that_a_rule_knows_classes_a_replayed_kernel() -> None:
    """The kernel's own name says nothing, and it ran in replays alone."""
    builder = trace().step(1, 0, 100).op("aten::scaled_dot_product_attention", 1, 20).op("mine::op", 2, 10)
    builder.launches(kernel("k_0", 5, at=20))
    builder.step(2, 200, 100).python("serve.py(1): run", 201, 50).launches(kernel("k_1", 5, at=220), at=210, name=GRAPH)
    alone = builder.table()
    assert int(classify_kernels(alone).of(alone.name[[last_kernel(alone, "k_1")]])[0]) == KernelClass.OTHER
    table = with_origins(builder.table(), "1")
    assert int(classify_kernels(table).of(table.name[[last_kernel(table, "k_1")]])[0]) == KernelClass.ATTENTION


def test_events_are_found_by_the_operator_behind_them(half: TraceTable) -> None:
    def found(operator: str) -> set[tuple[str, str]]:
        listed = rows(half, "events", "instances", where=(("operator", operator), ("kind", "kernel")))
        return {(r["name"], r["operator"]) for r in listed}

    assert found("aten::relu") == {("relu", "aten::relu")}
    assert (
        len(rows(half, "events", "instances", where=(("operator", "aten::relu"),))) == 3 + 1
    )  # and the call that launched the first
    assert {r["name"] for r in rows(half, "events", "instances", where=(("operator", NO_OPERATOR),))} == {
        "sgemm_fp16_tensorop",
        "Memcpy HtoD (Pinned -> Device)",
    }


def one(table: TraceTable, event: int) -> dict[str, dict[str, Any]]:
    payloads = part(table, "events", extra=(("event", str(event)),)).payloads
    return {name: {f.metric.key: f.value for f in p.figures} for name, p in payloads.items() if isinstance(p, Figures)}


def test_the_panel_of_a_replayed_kernel_tells_its_origin(table: TraceTable) -> None:
    found = one(table, last_kernel(table, "add"))
    assert found["origin"] == {
        "operator": "aten::add_",
        "input_shape": "[[2, 4]]",
        "known_by": "capture in this trace",
    }
    assert found["modules"]["module_path"] == "Net_0;Linear_0"
    assert found["stack"]["call_stack"] == "nn.Module: Linear_0;nn.Module: Net_0;train.py(3): step"
    backward = one(table, last_kernel(table, "sgemm_fp16_tensorop"))
    assert backward["modules"]["module_path"] == "Net_0;Linear_0"


def test_the_panel_of_what_nothing_tells_has_no_origin(half: TraceTable) -> None:
    assert "origin" not in one(half, last_kernel(half, "sgemm_fp16_tensorop"))
    assert one(half, last_kernel(half, "relu"))["origin"]["known_by"] == "eager run"


def test_kernels_of_replays_count_for_operators_that_could_use_matrix_units() -> None:
    def of(known: float) -> MatrixEligible:
        builder = trace().device(0).step(1, 0, 100).op("aten::mm", 3, 10).launches(kernel("sgemm", 5, at=20))
        builder.op("aten::relu", 30, 10).launches(kernel("relu", 5, at=40))
        builder.step(2, 200, 100).op("aten::relu", 201, 10).launches(kernel("relu", 5, at=210))
        builder.python("serve.py(1): run", 220, 50)
        builder.launches(kernel("sgemm", 5, at=230), kernel("relu", 5, at=240), at=221, name=GRAPH)
        return matrix_eligible(with_origins(builder.table(), "1", known=known))

    assert (of(1).ratio, of(0).ratio) == (2 / 5, 1 / 3)


@pytest.mark.parametrize("known", [0, 0.6, 1])
def test_all_pages_agree_on_what_has_no_operator(known: float) -> None:
    table = with_origins(with_replays().table(), "1", known=known)
    told = facts(table)
    ns = told["trace.no_operator_ns"]
    reasons = part(table, "operators").facts
    assert ns == sum(value for key, value in reasons.items() if ".no_operator_" in key)
    assert ns == sum(r["device_self_ns"] for r in rows(table, "operators") if r["name"] == NO_OPERATOR)
    assert ns == sum(
        value for key, value in told.items() if key.startswith("device.") and key.endswith(".no_operator_ns")
    )
    work = of_kind(table.kind, *DEVICE_WORK)
    assert sum(r["device_self_ns"] for r in rows(table, "operators")) == table.dur_ns[work].sum()
    if known == 1:
        assert ns == 0 and row(table, "operators", name="aten::copy_")["replayed_calls"] == 2


def test_replayed_work_is_found_by_the_calls_of_the_capture_around_it(table: TraceTable) -> None:
    """An opened row of an operator or a module lists it: the same names as its device time is of, each once a replay."""

    def found(*where: tuple[str, str]) -> dict[str, int]:
        return Counter(r["name"] for r in rows(table, "events", "instances", where=where))

    gemm = "sgemm_fp16_tensorop"
    assert found(("replayed_operator", "aten::linear")) == {gemm: 2}
    assert found(("replayed_operator", "aten::mm")) == {gemm: 4}
    assert found(("replayed_operator", "aten::mm"), ("replayed_shape", "[[8, 2], [2, 4]]")) == {gemm: 2}
    assert found(("replayed_operator", "aten::linear"), ("replayed_shape", "[[2, 8], [8, 4]]")) == {}
    assert found(("replayed_operator", "aten::copy_"), ("replayed_shape", "")).keys() == {
        "Memcpy HtoD (Pinned -> Device)"
    }
    assert found(("replayed_module", "Linear_0")) == {gemm: 2, "add": 2}
    assert found(("replayed_module", "Net_0")) == {gemm: 2, "add": 2, "relu": 2}
    assert found(("replayed_module", "aten::mm")) == found(("replayed_operator", "no such")) == {}
    alone = with_replays().table()
    with_origins(alone, "1", known=0)
    assert not rows(alone, "events", "instances", where=(("replayed_operator", "aten::mm"),))
