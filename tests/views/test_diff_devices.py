"""Diff between devices of different makers: inputs that fit on a screen, and the samples of an NPU and a GPU."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.errors import NotFoundError
from tb_plugin.model.trace.job_tables import OPERATIONS, as_reported_table, job_table
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, Metric, Notice, Table, View
from tb_plugin.views.diff import operator_paths
from tb_plugin.views.diff.unlike_devices import TABLES
from tb_plugin.views.diff.view import Diff
from tests.builders import TraceBuilder, kernel, memcpy, part, trace, whole_part
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


def figures(notice: Notice) -> Row:
    return {figure.metric.key: figure.value for figure in notice.figures}


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


def test_parts_of_the_step_sum_to_it_on_both_sides() -> None:
    found = rows(BASE, EXP, "overall")
    # On both sides a step of 900; 10 + 4 + 30 computing; 6 + 20 + 4 + 60, and 50 of a ring beside which nothing runs.
    assert {part: (row["base_ns"], row["exp_ns"], row["delta_ns"]) for part, row in found.items()} == {
        "Computing": (44_000, 90_000, 46_000),
        "Exposed communication": (0, 50_000, 50_000),
        "Exposed copies and memsets": (7_000, 7_000, 0),
        "Free": (849_000, 753_000, -96_000),
        "Whole step": (900_000, 900_000, 0),
    }
    ratios = {part: row["compared_ratio"] for part, row in found.items()}
    assert ratios["Whole step"] == ratios["Exposed copies and memsets"] == 1
    assert ratios["Exposed communication"] is None and ratios["Computing"] == 90 / 44
    assert found["Computing"]["exp_share"] == 0.1


def test_what_a_product_needs_beside_it_is_its_time() -> None:
    found = rows(BASE, EXP, "computing")
    told = {key: (row["base_kernels"], row["base_ns"], row["exp_kernels"], row["exp_ns"]) for key, row in found.items()}
    assert told == {
        ("gemm", "forward"): (1, 10_000, 2, 26_000),
        ("gemm", "backward"): (1, 30_000, 1, 60_000),
        ("elementwise", ""): (1, 4_000, 1, 4_000),
    }
    assert next(iter(found)) == ("gemm", "backward"), "what changed most stands first"


def test_attention_holds_its_products_and_a_known_operator_says_which_pass() -> None:
    def attending(maker: str) -> TraceBuilder:
        builder = trace().device(0, name=maker).op("aten::scaled_dot_product_attention", 0, 50).op("aten::bmm", 5, 10)
        builder.launches(kernel(f"{maker}_bmm", 3, 100), at=6)
        builder.op("aten::conv2d", 60, 20).launches(kernel("dgrad_engine", 5, 200), at=61)
        return builder.on_device(kernel("flash_bwd_kernel", 2, 300)).on_device(kernel("flash_fwd_kernel", 1, 310))

    found = rows(attending(GPU), attending(NPU), "computing")
    assert {key: row["exp_ns"] for key, row in found.items()} == {
        ("attention", "forward"): 3_000,
        ("convolution", "forward"): 5_000,
        ("attention", "backward"): 2_000,
        ("attention", ""): 1_000,
    }


def test_communication_has_one_name_whatever_the_library() -> None:
    one, other = step(GPU, "aten::addmm", 0, 10, talk=40), trace().device(0, name=NPU).step(7, 0, 900)
    for number in range(2):
        other.op("aten::relu", 10 * number, 5).launches(
            kernel(f"hcom_allReduce__586_{number}_1", 30, 100 * (1 + number)), at=10 * number + 1
        )
    other.on_device(kernel("hcom_receive__586_9_1", 8, 500))
    found = rows(one, other, "communication")
    told = {key: (row["base_calls"], row["base_ns"], row["exp_calls"], row["exp_ns"]) for key, row in found.items()}
    assert told == {"all_reduce": (1, 40_000, 2, 60_000), "recv": (0, 0, 1, 8_000)}
    assert (found["all_reduce"]["base_longest_ns"], found["all_reduce"]["exp_longest_ns"]) == (40_000, 30_000)
    assert "base_wait_ns" not in found["all_reduce"], "nobody states it"


def test_waiting_and_transit_are_those_that_the_profile_states_of_the_chosen_steps() -> None:
    builder = trace().device(0, name=NPU).step(1, 0, 100).step(2, 100, 100)
    for number in (1, 2):
        builder.op("aten::relu", 100 * number - 90, 5)
        builder.launches(kernel(f"hcom_allReduce__586_{number}_1", 30, 100 * number - 60), at=100 * number - 89)
    stated = job_table(
        OPERATIONS,
        {
            "step": ["1", "2", None],
            "operation": ["hcom_allReduce__586_1_1", "hcom_allReduce__586_2_1", "hcom_broadcast__586_3_1"],
            "wait_ns": [4_000, 7_000, 1],
            "transit_ns": [20_000, None, 2],
        },
    )
    table = replace(builder.table(), reported_tables=(as_reported_table(OPERATIONS, stated),))
    for steps, wait in ((None, 11_000), (("2",), 7_000)):
        (row,) = part(table, "diff", steps).frames["collective_calls"].data.to_pylist()
        assert (row["collective"], row["stated_wait_ns"]) == ("all_reduce", wait)
    (row,) = answer(table, table, "communication").rows
    assert (row["base_wait_ns"], row["exp_wait_ns"], row["exp_transit_ns"]) == (5_500, 5_500, 10_000)


def test_operators_have_all_that_was_launched_in_them() -> None:
    found = rows(BASE, EXP, "operators")
    linear = found["aten::linear"]
    assert (linear["base_ns"], linear["exp_ns"], linear["compared_ratio"]) == (10_000, 26_000, 2.6)
    assert (linear["base_kernels"], linear["exp_kernels"], linear["delta_kernels"]) == (1, 2, 1)
    assert found["aclnnMatmul"]["presence"] == "new" and found["aclnnMatmul"]["compared_ratio"] is None
    assert found["aten::relu"]["compared_ratio"] == 1
    measure = {f.metric.key: f.value for f in answer(BASE, EXP).payloads["compared"].figures}["measure"]
    assert measure == "device_total_ns"
    own = rows(BASE, EXP, "operators", measure="device_self_ns")
    assert [(own[name]["base_kernels"], own[name]["exp_kernels"]) for name in ("aten::linear", "aclnnMatmul")] == [
        (0, 0),
        (0, 2),
    ]
    everything = rows(BASE, EXP, "operators", measure="all")["aten::linear"]
    assert (everything["base_kernels"], everything["exp_device_total_ns"], everything["base_host_total_ns"]) == (
        1, 26_000, 50_000,
    )  # fmt: skip


def test_kernels_stand_beside_each_other_by_the_nearest_operator_of_both() -> None:
    found = rows(BASE, EXP, "kernels_by_operator")
    told = {key: (row["base_kernel"], row["base_ns"], row["exp_kernel"], row["exp_ns"]) for key, row in found.items()}
    assert told == {
        ("aten::mm", 0): (f"{GPU}_product", 30_000, f"{NPU}_product", 60_000),
        ("aten::linear", 0): (f"{GPU}_product", 10_000, f"{NPU}_product", 20_000),
        ("aten::linear", 1): (None, 0, "TransData", 6_000),
        ("aten::to", 0): ("Memcpy HtoD (Pinned -> Device)", 7_000, "Memcpy HtoD (Pinned -> Device)", 7_000),
        ("aten::relu", 0): (f"{GPU}_relu", 4_000, f"{NPU}_relu", 4_000),
    }
    assert [key[0] for key in found] == ["aten::mm", "aten::linear", "aten::linear", "aten::to", "aten::relu"]


def test_kernels_of_one_side_stand_at_their_outermost_operator() -> None:
    base = trace().device(0, name=GPU).op("outer", 0, 50).op("inner", 5, 10).launches(kernel("k", 3, 100), at=6)
    exp = trace().device(0, name=NPU).op("other", 0, 50).launches(kernel("q", 4, 100), at=6)
    exp.on_device(kernel("alone", 1, 200))
    found = rows(base, exp, "kernels_by_operator")
    told = {key: (row["base_kernel"], row["exp_kernel"]) for key, row in found.items()}
    assert told == {("outer", 0): ("k", None), ("other", 0): (None, "q"), ("(no operator)", 0): (None, "alone")}


def test_what_can_be_compared_is_said() -> None:
    found = notices(answer(BASE, EXP))
    # By name all work has a partner: the product in aten::linear, not in aten::addmm or aclnnMatmul.
    assert figures(found["other_makers"]) == {"base_matched_ratio": 1, "exp_matched_ratio": 1}
    assert "unlike_work" not in found, "linear, relu and mm have the same shapes; aten::to has none"
    large = step(NPU, "aten::addmm", 0, 10)
    for event in large.events:
        if "Input Dims" in event.get("args", {}):
            event["args"]["Input Dims"] = [[64, 8]]
    found = notices(answer(BASE, large))
    assert figures(found["unlike_work"]) == {"base_alike_ratio": 0, "exp_alike_ratio": 0}
    assert found["unlike_work"].severity == "medium"


def test_the_family_or_operation_that_leads_is_named() -> None:
    slower = notices(answer(BASE, step(NPU, "aten::addmm", 0, 200)))
    first = next(iter(slower.values()))
    assert {"leading_part", "leading_delta_ns"} <= figures(first).keys()
    base, exp = (trace().device(0, name=maker) for maker in (GPU, NPU))
    for builder, dur in ((base, 20), (exp, 300)):
        builder.step(1, 0, 30).op("aten::mm", 1, 10).launches(kernel(f"mm{dur}", dur, 40), at=2)
    first = next(iter(notices(answer(base, exp)).values()))
    assert (figures(first)["leading_row"], figures(first)["leading_row_delta_ns"]) == ("gemm forward", 280_000)


def test_memory_of_the_device_that_holds_most() -> None:
    def holding(maker: str, kind: int, peak: int) -> TraceBuilder:
        builder = trace().device(0, name=maker).op("aten::mm", 0, 50).launches(kernel("mm", 3, 100), at=6)
        for device, size in ((0, peak), (1, 10)):
            totals = {"Total Allocated": size, "Total Reserved": 2 * size}
            builder.memory(10 + device, size, kind, device, **totals)
        return builder

    found = rows(holding(GPU, 1, 100), holding(NPU, 20, 300), "memory")
    assert {name: (row["base_bytes"], row["exp_bytes"], row["delta_bytes"]) for name, row in found.items()} == {
        "Most allocated": (100, 300, 200),
        "Most reserved": (200, 600, 400),
    }


@pytest.mark.parametrize(
    ("one", "other", "there"),
    [(GPU, GPU, False), (GPU, NPU, True), (NPU, NPU, True), (GPU, "AMD Instinct MI300X", True)],
)
def test_where_the_tables_are(one: str, other: str, there: bool) -> None:
    base, exp = (trace().device(0, name=name) for name in (one, other))
    for builder in (base, exp):
        builder.op("aten::mm", 0, 10).launches(kernel("mm", 3, 100), at=6)
    view = answer(base, exp)
    assert [name for name in TABLES if name in view.payloads] == (
        ["overall", "computing", "kernels_by_operator"] if there else []
    )
    assert ("other_makers" in notices(view)) == (one != other)
    assert ("compared_ratio" in view.payloads["operators"].rows[0]) == there


def test_a_side_without_a_device_is_compared_as_ever() -> None:
    host = trace().op("aten::mm", 0, 10)
    view = answer(host, EXP)
    assert not set(TABLES) & set(view.payloads) and not {"other_makers", "unlike_work"} & notices(view).keys()


def test_of_very_many_paths_those_with_most_time_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = trace().device(0, name=NPU)
    for number in range(6):
        builder.op(f"outer{number}", 100 * number, 50).op(f"inner{number}", 100 * number + 1, 20)
        builder.launches(kernel(f"k{number}", 1 + number, 1000 + 10 * number), at=100 * number + 2)
    whole = operator_paths.paths_of(part(builder.table(), "diff"))
    assert len(whole.name) == 12
    monkeypatch.setattr(operator_paths, "MOST_PATHS", 3)
    cut = operator_paths.paths_of(part(builder.table(), "diff"))
    assert cut.name == ["outer4", "outer5", "inner5"] and cut.total_ns == whole.total_ns == 21_000
    owner = {
        name: cut.name[at] if at >= 0 else None
        for name, at in zip(cut.work["name"].to_pylist(), cut.owner, strict=True)
    }
    assert owner == {"k0": None, "k1": None, "k2": None, "k3": None, "k4": "outer4", "k5": "inner5"}


def test_the_samples_of_an_npu_and_a_gpu() -> None:
    npu = made("synthetic_ascend/rank_0_20251124120000000_ascend_pt/ASCEND_PROFILER_OUTPUT")
    gpu = made("synthetic_gpu/worker0.1795200788815973544.pt.trace.json.gz")
    view = answer(npu, gpu)
    assert set(TABLES) <= set(view.payloads)
    tables = {name: view.payloads[name].rows for name in TABLES}
    whole = tables["overall"][-1]
    for side in ("base", "exp"):
        assert sum(row[f"{side}_ns"] for row in tables["overall"][:-1]) == whole[f"{side}_ns"]
        times = sum(row[f"{side}_ns"] for row in tables["computing"])
        beside = sum(row[f"{side}_ns"] for row in tables["kernels_by_operator"])
        copies = sum(
            row[f"{side}_ns"] for row in tables["kernels_by_operator"] if "mem" in (row[f"{side}_kernel"] or "").lower()
        )
        assert beside - copies == pytest.approx(times), side
    operators = {row["name"]: row for row in view.payloads["operators"].rows}
    linear = operators["aten::linear"]
    assert linear["presence"] == "both" and linear["base_ns"] == 792_705 and linear["base_kernels"] == 3
    assert "unlike_work" in notices(view)
    names = {row["collective"]: row for row in tables["communication"]}
    assert names["all_reduce"]["base_calls"] == 2 and names["all_reduce"]["exp_calls"] == 4 and "recv" in names


def test_steps_are_chosen_on_each_side() -> None:
    """Two steps of an NPU and one: sums over steps, and means; a recording without steps counts as one."""
    builder = trace().device(0, name=NPU)
    for number, dur in ((1, 10), (2, 30)):
        at = 1000 * number
        builder.step(number, at, 100).op("aten::mm", at, 20).launches(kernel(f"mm{number}", dur, at + 40), at=at + 2)
    table = builder.table()
    unlabelled = trace().device(0, name=NPU).op("aten::mm", 0, 20).launches(kernel("mm", 8, 40), at=2).table()

    def times(base: Part, exp: Part, **extra: str) -> tuple[float, float]:
        found = Diff().answer([base, exp], Params(table="computing", extra=tuple(extra.items())))
        assert isinstance(found, Table)
        (row,) = found.rows
        return row["base_ns"], row["exp_ns"]  # type: ignore[return-value]

    both, second, whole = whole_part(table, "diff"), whole_part(table, "diff", ("2",)), side(unlabelled)
    assert times(both, second) == (20_000, 30_000)
    assert times(both, second, per="total") == (40_000, 30_000)
    assert times(whole, both) == (8_000, 20_000)


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
