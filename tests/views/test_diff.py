"""Diff: the waterfall, the aligned call tree, and the joined tables, on inputs that fit on a screen."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest
from tb_plugin.payloads import Breakdown, Figures, Notices, Table, Tree, View
from tb_plugin.views.diff.alignment import Node, align, longest_common_subsequence
from tb_plugin.views.diff.view import Diff
from tests import builders
from tests.builders import TraceBuilder, kernel, memcpy, paths, trace, whole_part

Row = dict[str, Any]
Where = tuple[tuple[str, str], ...]


def compare(
    base: TraceBuilder,
    exp: TraceBuilder,
    table: str | None = None,
    where: tuple[tuple[str, str], ...] = (),
    **extra: str,
) -> View | Table:
    parts = [whole_part(base.table(), "diff"), whole_part(exp.table(), "diff")]
    return Diff().answer(parts, Params(table=table, limit=None, where=where, extra=tuple(extra.items())))


def page(base: TraceBuilder, exp: TraceBuilder, **extra: str) -> View:
    answer = compare(base, exp, **extra)
    assert isinstance(answer, View)
    return answer


def rows(
    base: TraceBuilder,
    exp: TraceBuilder,
    table: str,
    key: str = "name",
    where: tuple[tuple[str, str], ...] = (),
    **extra: str,
) -> dict[Any, Row]:
    answer = compare(base, exp, table, where=where, **extra)
    assert isinstance(answer, Table)
    return {row[key]: row for row in answer.rows}


def tree(base: TraceBuilder, exp: TraceBuilder, **extra: str) -> dict[str, tuple[str, float, float]]:
    """Path of names -> presence and both times in microseconds."""
    payload = page(base, exp, **extra).payloads["call_tree"]
    assert isinstance(payload, Tree)
    named = zip(paths(payload.rows, payload.parent, "name"), payload.rows, strict=True)
    found = {"/".join(path): (row["presence"], row["base_ns"] / 1000, row["exp_ns"] / 1000) for path, row in named}
    assert len(found) == len(payload.rows)
    return found


def figures(view: View) -> Row:
    payload = view.payloads["headline"]
    assert isinstance(payload, Figures)
    return {figure.metric.key: figure.value for figure in payload.figures}


def waterfall(view: View) -> dict[str, int | float]:
    payload = view.payloads["waterfall"]
    assert isinstance(payload, Breakdown)
    parts = {part.category: part.value for part in payload.parts}
    assert sum(parts.values()) == payload.total
    return parts


def rules(view: View) -> list[str]:
    payload = view.payloads["findings"]
    assert isinstance(payload, Notices)
    return [notice.rule for notice in payload.notices]


LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def two_steps(loading: int, compute: int) -> TraceBuilder:
    """Two steps that load for ``loading`` and compute for ``compute`` microseconds."""
    builder, length = trace(), loading + compute
    for number in range(2):
        at = 1000 * number
        builder.step(number, at, length).annotation(LOADER, at, loading)
        builder.op("aten::mm", at + loading, compute)
    return builder


def test_the_waterfall_leads_from_step_to_step() -> None:
    view = page(two_steps(300, 100), two_steps(20, 110))
    assert figures(view) == {
        "base_step_ns": 400_000,
        "exp_step_ns": 130_000,
        "delta_step_ns": -270_000,
        "step_ratio": 0.325,
    }
    assert waterfall(view) == {"dataloader": -280_000, "cpu": 10_000}
    assert rules(view) == ["faster"]
    finding = view.payloads["findings"].notices[0]  # type: ignore[union-attr]
    assert finding.figures[0].value == "Data loading"


def test_parts_of_means_that_are_no_whole_nanoseconds_sum_exactly() -> None:
    """Three steps of 1, 1 and 2 ns more than 400 us: the mean is a fraction."""
    base, exp = trace(), trace()
    for number, (loading, compute) in enumerate(((0.001, 0.001), (0.001, 0.002), (0.002, 0.001))):
        at = 1000 * number
        exp.step(number, at, 100).annotation(LOADER, at, 10 + loading).op("aten::mm", at + 20, 10 + compute)
        base.step(number, at, 100)
    parts = waterfall(page(base, exp))
    assert set(parts) == {"dataloader", "cpu", "other"}
    assert abs(parts["dataloader"] - 10_001.33) < 1 and abs(parts["cpu"] - 10_001.33) < 1


def on_device(loading: Any, starts: Any, *more: Any) -> TraceBuilder:
    """Steps that load, launch for 10 us, and run a kernel of 50 us so much later."""
    builder = trace()
    for number, (load, late) in enumerate(((loading, starts), *more)):
        at = 1000 * number
        builder.step(number, at, load + 10).annotation(LOADER, at, load).op("aten::mm", at + load, 10)
        builder.launches(kernel("gemm", 50, at + load + 10 + late), at=at + load, dur=10)
    return builder


def test_idle_time_is_opened_by_cause() -> None:
    """The device waits for input 30 us less; of 5 us from the launch to the kernel 2 are usual in the baseline."""
    view = page(on_device(100, 2), on_device(70, 5))
    assert waterfall(view) == {"kernel": 0, "idle_input": -30_000, "idle_launch": 0, "idle_launch_latency": 3_000}


def test_causes_of_means_that_are_no_whole_nanoseconds_sum_exactly() -> None:
    waterfall(page(on_device(100.001, 2, (100.001, 2.001), (100.002, 2)), on_device(70, 2.001, (70.001, 2), (70, 2))))


def test_idle_time_of_several_devices_is_not_what_remains_of_a_step() -> None:
    two = on_device(100, 2).op("aten::mm", 200, 10).launches(kernel("gemm", 50, 230, device=1))
    assert {"runtime", "dataloader"} <= set(waterfall(page(two, on_device(100, 2))))
    assert set(waterfall(page(two_steps(300, 100), two_steps(20, 110)))) == {"dataloader", "cpu"}


def test_kernel_classes_that_change_are_parts() -> None:
    """Of the matrix products 30 us more, of attention 20 us less; a reduction of 0.1 us more is no part of its own."""

    def side(mm: float, attention: float, total: float) -> TraceBuilder:
        work = [kernel("sgemm", mm, 20), kernel("flash_fwd", attention, 120), kernel("reduce_kernel", total, 220)]
        return trace().step(1, 0, 300).op("aten::mm", 0, 10).launches(*work, at=1)

    view = page(side(50, 60, 5), side(80, 40, 5.1))
    found = waterfall(view)
    assert (found["gemm"], found["attention"], found["kernel"]) == (30_000, -20_000, 100)
    payload = view.payloads["waterfall"]
    assert isinstance(payload, Breakdown)
    parts = {part.category: (part.metric.title, part.link and part.link.params) for part in payload.parts}
    assert parts["gemm"] == ("GEMM kernels", {"group": "kernels", "where": "class:gemm"})
    assert parts["kernel"][0] == "Other kernels"
    assert rows(side(50, 60, 5), side(80, 40, 5.1), "kernels", where=(("class", "gemm"),)).keys() == {"sgemm"}
    (kernels,) = (each for each in view.payloads.values() if isinstance(each, Table) and each.name == "kernels")
    assert kernels.rows[0]["class_title"] == "GEMM"
    assert [column.hidden for column in kernels.columns if column.metric.key == "class_title"] == [True]


def test_a_profile_against_itself_is_zero_everywhere() -> None:
    one = two_steps(300, 100)
    view = page(one, one)
    assert set(waterfall(view).values()) == {0}
    assert rules(view) == ["same_step_time"]
    assert all(row["delta_ns"] == 0 and row["presence"] == "both" for row in view.payloads["call_tree"].rows)  # type: ignore[union-attr]
    for table in ("operators", "operators_by_shape", "kernels", "modules"):
        assert all(row["delta_ns"] == row["delta_calls"] == 0 for row in rows(one, one, table).values())


def test_phases_stand_above_modules_operators_and_kernels() -> None:
    def run(gemm: str, dur: int) -> TraceBuilder:
        return (
            trace()
            .annotation(LOADER, 0, 50)
            .op("aten::stack", 10, 20)
            .module("Linear", 100, 40, 0)
            .op("aten::linear", 110, 20)
            .launches(kernel(gemm, dur, at=120))
            .op("autograd::engine::evaluate_function: MmBackward0", 200, 30, tid=2)
            .op("aten::mm", 205, 10, tid=2)
            .launches(kernel(gemm, 2 * dur, at=220))
            .annotation("Optimizer.step#SGD.step", 300, 25)
            .op("aten::add_", 305, 5)
            .launches(kernel("add", 3, at=310))
            .on_device(memcpy(4, at=400))
        )

    assert tree(run("volta", 10), run("ampere", 6), measure="device_total_ns") == {
        "Forward": ("both", 10, 6),
        "Forward/Linear_0": ("both", 10, 6),
        "Forward/Linear_0/aten::linear": ("both", 10, 6),
        "Forward/Linear_0/aten::linear/volta": ("gone", 10, 0),
        "Forward/Linear_0/aten::linear/ampere": ("new", 0, 6),
        "Backward": ("both", 20, 12),
        "Backward/autograd::engine::evaluate_function: MmBackward0": ("both", 20, 12),
        "Backward/autograd::engine::evaluate_function: MmBackward0/aten::mm": ("both", 20, 12),
        "Backward/autograd::engine::evaluate_function: MmBackward0/aten::mm/volta": ("gone", 20, 0),
        "Backward/autograd::engine::evaluate_function: MmBackward0/aten::mm/ampere": ("new", 0, 12),
        "Optimizer": ("both", 3, 3),
        "Optimizer/Optimizer.step#SGD.step": ("both", 3, 3),
        "Optimizer/Optimizer.step#SGD.step/aten::add_": ("both", 3, 3),
        "Optimizer/Optimizer.step#SGD.step/aten::add_/add": ("both", 3, 3),
        "Without a recorded call": ("both", 4, 4),
        "Without a recorded call/Memcpy HtoD (Pinned -> Device)": ("both", 4, 4),
    }
    host = tree(run("volta", 10), run("ampere", 6), measure="host_self_ns")
    assert {path: both[1] for path, both in host.items() if "/" not in path} == {
        "Data loading": 50,
        "Forward": 40,
        "Backward": 30,
        "Optimizer": 25,
    }
    assert host["Data loading/" + LOADER + "/aten::stack"] == ("both", 20, 20)


def test_a_backward_pass_inside_a_module_is_not_the_modules_time() -> None:
    one = trace().module("Net", 0, 100).op("aten::mm", 10, 20).op("MmBackward0", 50, 30).op("aten::t", 55, 10)
    assert tree(one, one) == {
        "Forward": ("both", 70, 70),
        "Forward/Net_0": ("both", 70, 70),
        "Forward/Net_0/aten::mm": ("both", 20, 20),
        "Backward": ("both", 30, 30),
        "Backward/MmBackward0": ("both", 30, 30),
        "Backward/MmBackward0/aten::t": ("both", 10, 10),
    }


def test_an_operator_with_a_recorded_forward_operator_is_backward() -> None:
    one = trace().op("aten::mm", 0, 10).op("mm_grad", 50, 20, tid=2).arrow(0, 50)
    assert tree(one, one) == {
        "Forward": ("both", 10, 10),
        "Forward/aten::mm": ("both", 10, 10),
        "Backward": ("both", 20, 20),
        "Backward/mm_grad": ("both", 20, 20),
    }


def model(*layers: tuple[str, int]) -> TraceBuilder:
    """A network of layers, each 10 us long."""
    builder = trace().module("Net", 0, 1000)
    for position, (name, number) in enumerate(layers):
        builder.module(name, 10 + 20 * position, 10, number)
    return builder


def test_an_inserted_layer_shifts_nothing() -> None:
    base = model(("Linear", 0), ("ReLU", 0), ("Linear", 1))
    exp = model(("Linear", 0), ("Dropout", 0), ("ReLU", 0), ("Linear", 1), ("Linear", 2))
    found = {path.rpartition("/")[2]: both[0] for path, both in tree(base, exp).items() if path.count("/") == 2}
    assert found == {"Linear_0": "both", "Dropout_0": "new", "ReLU_0": "both", "Linear_1": "both", "Linear_2": "new"}


def test_a_layer_whose_number_moved_is_the_same_layer() -> None:
    base, exp = model(("Linear", 0), ("ReLU", 0)), model(("Linear", 7), ("ReLU", 0))
    assert tree(base, exp)["Forward/Net_0/Linear_0 → Linear_7"] == ("both", 10, 10)


def test_a_renamed_module_meets_the_old_one_in_its_parent() -> None:
    found = tree(model(("Linear", 0)), model(("FusedLinear", 0)))
    assert found["Forward/Net_0"] == ("both", 1000, 1000)
    assert found["Forward/Net_0/Linear_0"] == ("gone", 10, 0)
    assert found["Forward/Net_0/FusedLinear_0"] == ("new", 0, 10)


def test_an_operator_that_moved_into_a_wrapper_is_compared_there() -> None:
    """aten::mm takes 10 and then 12 us; the new call around it 3 more. aten::add has nothing to do with it."""
    base = trace().module("Net", 0, 100).op("aten::mm", 10, 10).op("aten::add", 30, 5)
    exp = trace().module("Net", 0, 100).op("CompiledFunction", 10, 15).op("aten::mm", 11, 12).op("aten::relu", 30, 5)
    assert tree(base, exp) == {
        "Forward": ("both", 100, 100),
        "Forward/Net_0": ("both", 100, 100),
        "Forward/Net_0/CompiledFunction": ("new", 10, 15),
        "Forward/Net_0/CompiledFunction/aten::mm": ("both", 10, 12),
        "Forward/Net_0/aten::add": ("gone", 5, 0),
        "Forward/Net_0/aten::relu": ("new", 0, 5),
    }
    assert tree(exp, base)["Forward/Net_0/CompiledFunction"] == ("gone", 15, 10)
    assert tree(exp, base)["Forward/Net_0/CompiledFunction/aten::mm"] == ("both", 12, 10)


def test_wrappers_around_each_other_and_around_modules() -> None:
    base = model(("Linear", 0), ("ReLU", 0))
    exp = trace().module("Net", 0, 1000).module("Checkpoint", 5, 60, 3).module("Sequential", 6, 58, 1)
    exp.module("Linear", 10, 10, 4).module("ReLU", 30, 20, 0)
    found = tree(base, exp)
    outer = "Forward/Net_0/Checkpoint_3"
    assert (found[outer], found[f"{outer}/Sequential_1"]) == (("new", 20, 60), ("new", 20, 58))
    assert found[f"{outer}/Sequential_1/Linear_0 → Linear_4"] == ("both", 10, 10)
    assert found[f"{outer}/Sequential_1/ReLU_0"] == ("both", 10, 20)
    assert len(found) == 6


def test_two_wrappers_share_nothing() -> None:
    """The one that holds more gets it; a wrapper on each side may hold what the other side has."""
    base = trace().op("aten::mm", 0, 1).op("aten::add", 2, 1).op("old", 10, 9).op("aten::relu", 11, 3)
    exp = trace().op("one", 0, 9).op("aten::mm", 1, 2).op("two", 20, 9).op("aten::mm", 21, 2).op("aten::add", 24, 2)
    exp.op("aten::relu", 40, 2)
    assert {path: both for path, both in tree(base, exp).items() if path != "Forward"} == {
        "Forward/old": ("gone", 9, 2),
        "Forward/old/aten::relu": ("both", 3, 2),
        "Forward/one": ("new", 0, 9),
        "Forward/one/aten::mm": ("new", 0, 2),
        "Forward/two": ("new", 2, 9),
        "Forward/two/aten::mm": ("both", 1, 2),
        "Forward/two/aten::add": ("both", 1, 2),
    }


def test_two_large_changes_that_cancel_are_both_named() -> None:
    notice = page(two_steps(300, 100), two_steps(200, 198)).payloads["findings"].notices[0]  # type: ignore[union-attr]
    found = {figure.metric.key: figure.value for figure in notice.figures}
    assert notice.rule == "same_step_time" and "Changes cancel out" in notice.text
    assert found == {
        "delta_step_ns": -2_000, "leading_part": "Data loading", "leading_delta_ns": -100_000,
        "delta_cpu_ns": 98_000,
    }  # fmt: skip
    notice = page(two_steps(300, 100), two_steps(400, 40)).payloads["findings"].notices[0]  # type: ignore[union-attr]
    found = {figure.metric.key: figure.value for figure in notice.figures}
    assert notice.rule == "slower" and "Partly offset by CPU {delta_cpu_ns}." in notice.text
    assert (found["leading_delta_ns"], found["delta_cpu_ns"]) == (100_000, -60_000)


def loading_step(loader: str, loading: int, forward: int) -> TraceBuilder:
    builder = trace()
    for number in range(3):
        at = 1000 * number
        builder.step(number, at, loading + forward)
        builder.annotation(f"enumerate(DataLoader)#{loader}.__next__", at, loading)
        builder.op("aten::mm", at + loading, forward)
    return builder


def test_phases_that_work_against_the_change_are_said_with_their_likely_cause() -> None:
    single, several = "_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter"
    base, exp = loading_step(single, 300, 100), loading_step(several, 100, 150)

    def phases(one: TraceBuilder, other: TraceBuilder) -> tuple[str, Row]:
        found = [n for n in page(one, other).payloads["findings"].notices if n.rule == "phases_changed"]  # type: ignore[union-attr]
        return (found[0].text, {f.metric.title: f.value for f in found[0].figures}) if found else ("", {})

    text, changes = phases(base, exp)
    assert changes == {"Data loading": -200_000, "Forward": 50_000}
    assert text.startswith("CPU time by phase, per step: Data loading {delta_phase_ns_0}, Forward {delta_phase_ns_1}.")
    assert "Likely cause: the workers compete with the training process for the CPU." in text
    assert "Likely cause" not in phases(base, loading_step(single, 100, 150))[0]
    assert "Likely cause" not in phases(exp, base)[0]
    assert phases(base, loading_step(several, 100, 102)) == ("", {})


def one_step(load: int = 10, mm: int = 10, call: int = 10, gemm: int = 10, copy: int = 10) -> TraceBuilder:
    """A step whose parts lie behind each other, each as long as said, in microseconds."""
    builder = trace().step(1, 0, load + mm + call + gemm + copy).annotation(LOADER, 0, load)
    builder.op("aten::mm", load, mm).op("aten::copy_", load + mm, call)
    work = [kernel("gemm", gemm, load + mm + call), memcpy(copy, load + mm + call + gemm)]
    return builder.launches(*work, at=load + mm, dur=call)


@pytest.mark.parametrize(
    ("change", "part", "row"),
    [
        ({"load": 50}, "Data loading", (None, None)),
        ({"mm": 90}, "Operator dispatch", ("aten::mm", 80_000)),
        ({"call": 80}, "Launch calls", ("cudaLaunchKernel", 70_000)),
        ({"gemm": 70}, "GEMM kernels", ("gemm", 60_000)),
        ({"copy": 60}, "Memcpy", (None, None)),
    ],
)
@pytest.mark.parametrize("slower", [True, False])
def test_the_row_that_changed_most_is_named(
    change: dict[str, int], part: str, row: tuple[str | None, int | None], slower: bool
) -> None:
    sides = [one_step(), one_step(**change)]
    first = page(*(sides if slower else sides[::-1])).payloads["findings"].notices[0]  # type: ignore[union-attr]
    found = {figure.metric.key: figure.value for figure in first.figures}
    sign = 1 if slower else -1
    assert found["leading_part"] == part
    assert (found.get("leading_row"), found.get("leading_row_delta_ns")) == (row[0], row[1] and sign * row[1])


def test_the_row_of_communication_is_one_that_communicates() -> None:
    """A kernel that another one hides changes more, and no part of the step with it."""

    def side(hidden: int, ring: int) -> TraceBuilder:
        builder = trace().step(1, 0, 900).op("aten::mm", 0, 5)
        builder.launches(kernel("long", 300, 10), kernel("hidden", hidden, 10, stream=8))
        return builder.op("nccl:all_reduce", 5, 5).launches(kernel("ncclDevKernel_AllReduce", ring, 400))

    first = page(side(10, 520), side(280, 620)).payloads["findings"].notices[0]  # type: ignore[union-attr]
    found = {figure.metric.key: figure.value for figure in first.figures}
    assert (found["leading_part"], found["leading_row"]) == ("Communication", "ncclDevKernel_AllReduce")


def modules(text: str) -> list[Node]:
    return [Node("module", name) for name in text.split()]


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        ("A_0 B_0 C_0", "A_0 C_0", [(0, 0), (2, 1)]),
        ("A_0 A_1 A_2", "A_0 A_2", [(0, 0), (2, 1)]),  # equal names before equal classes
        ("A_0 A_1", "A_5 A_6", [(0, 0), (1, 1)]),
        ("A_0 B_0", "B_0 A_0", [(0, 1)]),  # in order: never crossing
        ("A_0", "B_0", []),
        ("", "B_0", []),
    ],
)
def test_sequences_of_modules(left: str, right: str, pairs: list[tuple[int, int]]) -> None:
    assert longest_common_subsequence(modules(left), modules(right)) == pairs
    assert longest_common_subsequence(modules(right), modules(left)) == sorted((j, i) for i, j in pairs)


def test_very_long_sequences_are_matched_by_name() -> None:
    left = [Node("module", f"L_{i}") for i in range(3000)]
    right = [*left[:1500], Node("module", "New_0"), *left[1500:]]
    pairs = align(left, [-1] * len(left), right, [-1] * len(right))
    assert [(p.left, p.right) for p in pairs if p.left >= 0] == [(i, i + (i >= 1500)) for i in range(3000)]
    assert [p.right for p in pairs if p.left < 0] == [1500]


def test_operators_are_matched_by_name_whatever_their_order() -> None:
    left = [Node("phase", "Forward"), Node("operator", "a"), Node("operator", "b"), Node("operator", "c")]
    right = [Node("phase", "Forward"), Node("operator", "c"), Node("operator", "x"), Node("operator", "a")]
    pairs = align(left, [-1, 0, 0, 0], right, [-1, 0, 0, 0])
    assert [(p.left, p.right, p.parent) for p in pairs] == [
        (0, 0, -1),
        (1, 3, 0),
        (2, -1, 0),
        (3, 1, 0),
        (-1, 2, 0),
    ]


def test_tables_hold_both_sides() -> None:
    base = trace().step(1, 0, 100).op("aten::mm", 0, 10, shapes=[[2, 2]]).op("aten::add", 20, 5)
    exp = trace()
    for number in range(2):
        at = 200 * number
        exp.step(number, at, 100).op("aten::mm", at, 30, shapes=[[2, 2]]).op("aten::mm", at + 40, 10, shapes=[[4, 4]])
        exp.op("aten::relu", at + 60, 2)
    found = rows(base, exp, "operators")
    assert {
        name: (
            r["presence"],
            r["base_calls"],
            r["exp_calls"],
            r["base_ns"],
            r["exp_ns"],
            r["delta_ns"],
            r["time_ratio"],
        )
        for name, r in found.items()
    } == {
        "aten::mm": ("both", 1, 2, 10_000, 40_000, 30_000, 4),
        "aten::relu": ("new", 0, 1, 0, 2_000, 2_000, None),
        "aten::add": ("gone", 1, 0, 5_000, 0, -5_000, 0),
    }
    assert list(found) == ["aten::mm", "aten::relu", "aten::add"]
    shapes = rows(base, exp, "operators_by_shape", "input_shape")
    assert shapes["[[2, 2]]"]["delta_ns"] == 20_000 and shapes["[[4, 4]]"]["presence"] == "new"
    total = rows(base, exp, "operators", per="total")["aten::mm"]
    assert (total["base_ns"], total["exp_ns"], total["exp_calls"], total["delta_ns"]) == (10_000, 80_000, 4, 70_000)


def test_the_largest_increase_stands_first() -> None:
    base = trace().step(1, 0, 100).op("aten::mm", 0, 50).op("aten::add", 60, 10)
    exp = trace().step(1, 0, 70).op("aten::mm", 0, 20).op("aten::add", 30, 15)
    assert list(rows(base, exp, "operators")) == ["aten::add", "aten::mm"]
    assert list(rows(exp, base, "operators")) == ["aten::mm", "aten::add"]


def test_operators_without_recorded_shapes_join() -> None:
    one = trace().op("aten::mm", 0, 10)
    (row,) = rows(one, one, "operators_by_shape").values()
    assert (row["presence"], row["input_shape"], row["base_ns"]) == ("both", "", 10_000)


def test_every_measure() -> None:
    base = trace().op("aten::linear", 0, 20).op("aten::mm", 5, 10).launches(kernel("gemm", 7, at=30))
    exp = trace().op("aten::linear", 0, 40).op("aten::mm", 5, 10).launches(kernel("gemm", 9, at=50))
    expected = {
        "host_self_ns": (10_000, 30_000),
        "host_total_ns": (20_000, 40_000),
        "device_self_ns": (0, 0),
        "device_total_ns": (7_000, 9_000),
    }
    for measure, both in expected.items():
        row = rows(base, exp, "operators", measure=measure)["aten::linear"]
        assert (row["base_ns"], row["exp_ns"]) == both
        gemm = rows(base, exp, "kernels", measure=measure)["gemm"]
        assert (gemm["base_ns"], gemm["exp_ns"]) == (7_000, 9_000)
    everything = rows(base, exp, "operators", measure="all")["aten::linear"]
    assert {m: (everything[f"base_{m}"], everything[f"exp_{m}"]) for m in expected} == expected


def test_what_is_not_there_is_said() -> None:
    one = trace().op("aten::mm", 0, 10)
    for wrong in ({"measure": "calls"}, {"per": "day"}):
        with pytest.raises(BadRequest):
            compare(one, one, **wrong)


def test_a_host_against_a_device() -> None:
    base = trace().step(1, 0, 100).op("aten::mm", 0, 80)
    exp = trace().device(0).step(1, 0, 30).op("aten::mm", 0, 5).launches(kernel("gemm", 20, at=5))
    view = page(base, exp)
    assert waterfall(view) == {"gemm": 20_000, "cpu": -75_000, "other": -15_000}
    assert rows(base, exp, "operators")["aten::mm"]["base_ns"] == 80_000  # host time is what both have
    assert rows(base, exp, "kernels")["gemm"]["presence"] == "new"
    settings = rows(base, exp, "settings", "setting")
    assert settings["Device"] == {"setting": "Device", "base_setting": None, "exp_setting": "Tesla V100"}


def test_device_time_is_shown_first_where_it_changed_most() -> None:
    def run(dur: int) -> TraceBuilder:
        return trace().step(1, 0, 10).op("aten::mm", 0, 8).launches(kernel("gemm", dur, at=5))

    assert rows(run(100), run(200), "operators")["aten::mm"]["base_ns"] == 100_000
    compared = page(run(100), run(200), per="total").payloads["compared"]
    assert isinstance(compared, Figures)
    assert [figure.value for figure in compared.figures] == ["device_self_ns", "total"]


def test_steps_on_one_side_only() -> None:
    base, exp = trace().op("aten::mm", 0, 10), two_steps(5, 10)
    view = page(base, exp)
    assert "steps_on_one_side" in rules(view)
    assert (figures(view)["base_step_ns"], figures(view)["exp_step_ns"]) == (10_000, 15_000)


def test_sums_of_unlike_numbers_of_steps_judge_nothing() -> None:
    base, exp = trace().step(1, 0, 90).op("aten::mm", 0, 80), two_steps(80, 80)
    view = page(base, exp, per="total")
    findings = view.payloads["findings"]
    assert isinstance(findings, Notices)
    first = findings.notices[0]
    assert (first.rule, first.severity) == ("unlike_sums", "info")
    assert "in total" in first.text and "per step" not in first.text and "sums over 1 and 2 steps" in first.text
    headline = view.payloads["headline"]
    assert isinstance(headline, Figures)
    assert [figure.metric.title for figure in headline.figures[:2]] == ["Baseline, all steps", "Experiment, all steps"]


def test_sums_of_as_many_steps_are_called_sums() -> None:
    findings = page(two_steps(50, 50), two_steps(80, 80), per="total").payloads["findings"]
    assert isinstance(findings, Notices)
    assert (findings.notices[0].rule, findings.notices[0].severity) == ("slower", "high")
    assert "{leading_delta_ns} in total. Also slower: CPU {delta_cpu_ns}." in findings.notices[0].text


@pytest.mark.parametrize("side", [0, 1])
def test_a_side_that_ends_early_is_said(side: int) -> None:
    whole = two_steps(5, 10)
    sides = [whole.table(), whole.table()]
    sides[side] = builders.model(whole.bytes()[:-20])
    found = [
        Diff().answer([whole_part(one, "diff") for one in pair], Params()) for pair in (sides, [whole.table()] * 2)
    ]
    assert [isinstance(one, View) and "incomplete_side" in rules(one) for one in found] == [True, False]


def test_options_that_differ() -> None:
    base, exp = two_steps(5, 10).meta(with_stack=1), two_steps(5, 10).meta(with_stack=1, record_shapes=1)
    assert "options_differ" in rules(page(base, exp))
    row = rows(base, exp, "settings", "setting")["Profiler options"]
    assert (row["base_setting"], row["exp_setting"]) == ("with_stack", "record_shapes, with_stack")


def test_settings_that_every_recording_has_of_its_own_are_no_difference() -> None:
    def side(number: int, **more: Any) -> TraceBuilder:
        own = {
            "timestamp": 10**9 + number,
            "out_dir": f"/runs/{number}",
            "startTime": number,
            "model": f"/data/{number}/model",
        }
        nested = {"pid": number, "notes": "x" * 400}
        return two_steps(5, 10).meta(metadata={**own, "nested": nested, **more}, recorded=f"2026-11-0{number} 10:00:00")

    assert rows(side(1), side(2), "settings", "setting") == {}
    assert set(rows(side(1), side(2, base_image="rocm"), "settings", "setting")) == {"metadata.base_image"}


def test_a_trace_without_events() -> None:
    one = trace()
    view = page(one, two_steps(5, 10))
    assert figures(view)["base_step_ns"] in (0, None)
    assert all(row["presence"] == "new" for row in view.payloads["call_tree"].rows)  # type: ignore[union-attr]
