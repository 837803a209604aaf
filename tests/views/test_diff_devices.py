"""Diff between devices of different makers: inputs that fit on a screen, and the samples of an NPU and a GPU."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.errors import NotFoundError
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, Metric, Notice, Table, View
from tb_plugin.views.diff.view import Diff
from tests.builders import TraceBuilder, figures, kernel, memcpy, trace, whole_part
from tests.samples import made

Row = dict[str, Any]
NPU, GPU = "Ascend910B", "Tesla V100"


@functools.cache
def side(of: TraceBuilder | TraceTable) -> Part:
    return whole_part(of.table() if isinstance(of, TraceBuilder) else of, "diff")


def answer(base: Any, exp: Any, table: str | None = None, **extra: str) -> Any:
    return Diff().answer([side(base), side(exp)], Params(table=table, limit=None, extra=tuple(extra.items())))


def rows(base: TraceBuilder, exp: TraceBuilder, table: str, *keys: str, **extra: str) -> dict[Any, Row]:
    found = answer(base, exp, table, **extra)
    assert isinstance(found, Table)
    by = keys or tuple(found.row_key)
    return {row[by[0]] if len(by) == 1 else tuple(row[key] for key in by): row for row in found.rows}


def notices(view: View) -> dict[str, Notice]:
    return {notice.rule: notice for notice in view.payloads["findings"].notices}  # type: ignore[union-attr]


def step(maker: str, mm: str, lay_out: int, mm_dur: int, talk: int = 0) -> TraceBuilder:
    """A step of 900 us: a product of matrices (with a kernel that lays data out before it), its gradient, a ring."""
    builder = trace().device(0, name=maker).step(1, 0, 900)
    builder.op("aten::linear", 0, 50, shapes=[[8, 8], [8, 8]]).op(mm, 1, 40)
    if lay_out:
        builder.launches(kernel("TransData", lay_out, 100), at=2)
    builder.launches(kernel(f"{maker}_product", mm_dur, 120), at=5)
    builder.op("aten::relu", 60, 10, shapes=[[8, 8]]).launches(kernel(f"{maker}_relu", 4, 300), at=61)
    builder.op("autograd::engine::evaluate_function: MmBackward0", 80, 40).op("aten::mm", 85, 20, shapes=[[8, 8]])
    builder.launches(kernel(f"{maker}_product", 3 * mm_dur, 400), at=86)
    builder.op("aten::to", 130, 10).launches(memcpy(7, 10), at=131)
    if talk:
        builder.op("c10d::allreduce_", 150, 10).launches(kernel("ncclDevKernel_AllReduce", talk, 700), at=151)
    return builder


BASE, EXP = step(GPU, "aten::addmm", 0, 10), step(NPU, "aclnnMatmul", 6, 20, talk=50)


def test_kernels_are_compared_by_class() -> None:
    found = rows(BASE, EXP, "kernels_by_class")
    told = {key: (row["base_calls"], row["base_ns"], row["exp_calls"], row["exp_ns"]) for key, row in found.items()}
    assert told == {
        "gemm": (2, 40_000, 2, 80_000),
        "communication": (0, 0, 1, 50_000),
        "copy": (0, 0, 1, 6_000),
        "elementwise": (1, 4_000, 1, 4_000),
    }
    with pytest.raises(NotFoundError):
        answer(BASE, BASE, "kernels_by_class")


def test_operators_have_all_that_was_launched_in_them() -> None:
    found = rows(BASE, EXP, "operators")
    linear = found["aten::linear"]
    assert (linear["base_ns"], linear["exp_ns"], linear["time_ratio"]) == (10_000, 26_000, 2.6)
    assert found["aclnnMatmul"]["presence"] == "new" and found["aclnnMatmul"]["time_ratio"] is None
    measure = {f.metric.key: f.value for f in answer(BASE, EXP).payloads["compared"].figures}["measure"]
    assert measure == "device_total_ns"


def test_the_class_that_leads_is_named() -> None:
    base, exp = (trace().device(0, name=maker) for maker in (GPU, NPU))
    for builder, dur in ((base, 20), (exp, 300)):
        builder.step(1, 0, 30).op("aten::mm", 1, 10).launches(kernel(f"mm{dur}", dur, 40), at=2)
    first = next(iter(notices(answer(base, exp)).values()))
    assert (figures(first)["leading_part"], figures(first)["leading_delta_ns"]) == ("GEMM kernels", 280_000)
    assert "leading_row" not in figures(first)


@pytest.mark.parametrize(
    ("one", "other", "there"),
    [(GPU, GPU, False), (GPU, NPU, True), (NPU, NPU, False), (GPU, "AMD Instinct MI300X", True), (GPU, "", False)],
)
def test_it_is_said_where_kernels_cannot_be_compared(one: str, other: str, there: bool) -> None:
    base, exp = (trace().device(0, name=name) if name else trace() for name in (one, other))
    for builder in (base, exp):
        builder.op("aten::mm", 0, 10).launches(kernel("mm", 3, 100), at=6)
    view = answer(base, exp)
    assert ("kernels_by_class" in view.payloads) == ("other_makers" in notices(view)) == there


def test_a_side_without_a_device_is_compared_as_ever() -> None:
    view = answer(trace().op("aten::mm", 0, 10), EXP)
    assert "kernels_by_class" not in view.payloads and "other_makers" not in notices(view)


def test_the_samples_of_an_npu_and_a_gpu() -> None:
    npu = made("synthetic_ascend/rank_0_20251124120000000_ascend_pt/ASCEND_PROFILER_OUTPUT")
    gpu = made("synthetic_gpu/worker0.1795200788815973544.pt.trace.json.gz")
    view = answer(npu, gpu)
    operators = {row["name"]: row for row in view.payloads["operators"].rows}
    linear = operators["aten::linear"]
    assert linear["presence"] == "both" and linear["base_ns"] == 792_705
    for side in ("base", "exp"):
        kernels, classes = (
            sum(row[f"{side}_ns"] for row in view.payloads[name].rows) for name in ("kernels", "kernels_by_class")
        )
        assert kernels == pytest.approx(classes)


def test_kernels_by_a_type_that_profiles_state() -> None:
    """What the Kernels view has of such profiles is compared by its own columns; a side without it has none of the rows."""
    base, exp = side(BASE), side(EXP)
    columns = [Column(Metric(key, key.title(), "text", "As stated.")) for key in ("kernel_type", "core")]

    def stating(of: Part, **stated: list[Any]) -> Part:
        data = pa.table(
            {"kernel_type": stated["kernel"], "core": stated["core"], "calls": [1, 1], "total_ns": stated["ns"]}
        )
        frame = Frame("kernels_by_type", "Kernels by type", columns, data, ("kernel_type", "core"), "kernel_type")
        return replace(of, frames={**of.frames, frame.name: frame})

    def compared(one: Part, other: Part) -> dict[Any, Any]:
        found = Diff().answer([one, other], Params(table="kernels_by_type", extra=(("per", "total"),)))
        assert isinstance(found, Table) and found.columns[0].metric.title == "Kernel_Type"
        rows = {(row["kernel_type"], row["core"]): row for row in found.rows}
        return {key: (row["presence"], row["base_ns"], row["exp_ns"]) for key, row in rows.items()}

    one = stating(base, kernel=["MatMulV2", "Cast"], core=["AI_CORE", "AIV"], ns=[90, 5])
    other = stating(exp, kernel=["MatMulV2", "MatMulV2"], core=["AI_CORE", "MIX"], ns=[60, 7])
    assert compared(one, other) == {
        ("MatMulV2", "AI_CORE"): ("both", 90, 60),
        ("MatMulV2", "MIX"): ("new", 0, 7),
        ("Cast", "AIV"): ("gone", 5, 0),
    }
    assert compared(base, other) == {("MatMulV2", "AI_CORE"): ("new", 0, 60), ("MatMulV2", "MIX"): ("new", 0, 7)}
    with pytest.raises(NotFoundError):
        compared(base, exp)


def test_collectives_have_one_name_whatever_the_library() -> None:
    """Kernels of HCCL are numbered, and named otherwise than those of NCCL."""

    def side_of(maker: str, *kernels: tuple[str, int]) -> TraceBuilder:
        builder = trace().device(0, name=maker).step(1, 0, 30).op("c10d::allreduce_", 0, 20)
        at = 30
        for name, dur in kernels:
            builder.launches(kernel(name, dur, at), at=5)
            at += dur
        return builder

    numbered = [
        side_of(NPU, (f"hcom_allReduce__586_{i}_1", 100 + 100 * i), ("hcom_allReduce__586_9_1", 5)) for i in (0, 1)
    ]
    ring = side_of(GPU, ("ncclDevKernel_AllReduce", 50))
    for base, exp, change in ((*numbered, 100_000), (ring, numbered[1], 155_000)):
        first = next(iter(notices(answer(base, exp)).values()))
        assert (figures(first)["leading_row"], figures(first)["leading_row_delta_ns"]) == ("all_reduce", change)
