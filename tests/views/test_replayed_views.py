"""Other views of replayed work: kernels, events, the Overview. They name operators of the capture, and agree on the rest."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.graphs.origins import Way
from tb_plugin.analysis.kernel_classes import classify_kernels
from tb_plugin.model.trace.schema import DEVICE_WORK, NO_OPERATOR, EventKind, KernelClass, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figures
from tb_plugin.rules.matrix_units import MatrixEligible, matrix_eligible
from tests.builders import facts, kernel, part, row, rows, trace
from tests.origins import GRAPH, with_origins, with_replays


@pytest.fixture(scope="module")
def table() -> TraceTable:
    return with_origins(with_replays().table(), "1")


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
