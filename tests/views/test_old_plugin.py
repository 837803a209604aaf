"""The test cases of torch-tb-profiler 0.4.3, re-created: same inputs, same numbers, and where not, why not.

Times are microseconds as there; costs are in its order (Kernel, Memcpy, Memset, Communication, Runtime, DataLoader, CPU,
Other, Total). "Deviation:" marks a number of ours that differs, with the section of docs/concepts that defines it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules.matrix_units import matrix_eligible
from tests.builders import TraceBuilder, facts, kernel, memcpy, memset, named, part, row, rows, trace

COSTS = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu", "other", "total")
K, MC, MS = kernel, memcpy, memset


def costs(table: TraceTable) -> dict[str, list[float]]:
    """Step label -> cost vector in microseconds."""
    steps = rows(table, "overview", "steps")
    return {step["step"]: [step[f"{category}_ns"] / 1000 for category in COSTS] for step in steps}


def op(table: TraceTable, name: str, **where: Any) -> dict[str, float]:
    """Calls and times of an operator, in microseconds."""
    found = row(table, "operators", name=name, **where)
    times = ("host_total_ns", "host_self_ns", "device_total_ns", "device_self_ns")
    return {"calls": found["calls"], **{key[:-3]: found[key] / 1000 for key in times if key in found}}


def names(table: TraceTable, frame: str = "operators") -> set[str]:
    return {r["name"] for r in rows(table, "operators", frame)}


def all_categories() -> TraceBuilder:
    return (
        trace()
        .step(1, 50, 400, ext=1, tid=123)
        .op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 180, ext=2, tid=123)
        .op("aten::to", 200, 60, ext=3, tid=123, shapes=[[2, 8, 5]])
        .op("aten::nll_loss_backward", 340, 70, ext=4, tid=456)
        .on_device(MC(10, 405), ext=4, corr=334)
        .call(360, 20, ext=4, corr=334, tid=456, name="cudaMemcpyAsync")
        .on_device(MS(5, 420), ext=4, corr=40344)
        .call(390, 10, ext=4, corr=40344, tid=456, name="cudaMemsetAsync")
        .on_device(K("nll_kernel", 15, 430), ext=4, corr=40348)
        .call(405, 5, ext=4, corr=40348, tid=456)
    )


def test_every_category_of_a_step() -> None:
    table = all_categories().table()
    assert costs(table) == {"1": [15, 10, 5, 0, 30, 180, 35, 125, 400]}
    assert names(table) == names(table, "operators_by_shape") == {"aten::to", "aten::nll_loss_backward"}
    to = {"calls": 1, "host_total": 60, "host_self": 60, "device_total": 0, "device_self": 0}
    assert op(table, "aten::to") == to
    assert op(table, "aten::nll_loss_backward") == to | {
        "host_total": 70, "host_self": 35, "device_total": 30, "device_self": 30,
    }  # fmt: skip
    (launch,) = rows(table, "kernels", "kernels_by_launch")
    assert launch["operator"] == "aten::nll_loss_backward"
    assert {launch[f"{key}_ns"] for key in ("total", "min", "max", "mean")} == {15_000}


def test_every_category_with_the_names_of_pytorch_1_8() -> None:
    old = {"user_annotation": "Operator", "cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel"}
    old |= {"gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}
    builder = all_categories()
    for event in builder.events:
        event["cat"] = old[event["cat"]]
        event["args"] = {"external id" if key == "External id" else key: v for key, v in event["args"].items()}
    table = builder.table()
    assert costs(table) == {"1": [15, 10, 5, 0, 30, 180, 35, 125, 400]}
    # Deviation (Events): steps and data loader ranges are annotations, whatever category the file gave them.
    assert names(table) == {"aten::to", "aten::nll_loss_backward"}


def test_a_category_that_fills_the_step_leaves_nothing_to_the_others() -> None:
    # Deviation (Step breakdown): the old algorithm then counted Runtime 5, CPU 45 and Other 50 once more.
    table = trace().step(1, 100, 100).op("a", 110, 50).launches(K("k", 100, 100), at=115, dur=5).table()
    assert costs(table) == {"1": [100, 0, 0, 0, 0, 0, 0, 0, 100]}


def external_ids(launched: bool) -> TraceBuilder:
    builder = trace().op("aten::mat_mul", 100, 100, ext=2).op("aten::mm", 120, 70, ext=4)
    for i, (at, ext, dur) in enumerate([(120, 4, 5), (120, 2, 6), (190, 4, 7), (190, 2, 8)], start=1):
        if launched:
            builder.call(at, 0, ext=ext, corr=i)
        builder.on_device(K("k", dur, 300 + 20 * i), ext=ext, corr=i)
    return builder


def test_external_ids_decide_where_no_launch_was_recorded() -> None:
    table = external_ids(launched=False).table()
    assert (op(table, "aten::mat_mul")["device_total"], op(table, "aten::mat_mul")["device_self"]) == (26, 14)
    assert (op(table, "aten::mm")["device_total"], op(table, "aten::mm")["device_self"]) == (12, 12)


def test_a_recorded_launch_decides_against_external_ids() -> None:
    # Deviation (Events, "Which operator a device event belongs to"): at 120 mm is open (5 + 6), at 190 it has ended (7 + 8).
    table = external_ids(launched=True).table()
    assert (op(table, "aten::mat_mul")["device_total"], op(table, "aten::mat_mul")["device_self"]) == (26, 15)
    assert (op(table, "aten::mm")["device_total"], op(table, "aten::mm")["device_self"]) == (11, 11)
    assert facts(table)["trace.external_id_disagreements"] == 2


@pytest.mark.parametrize("start", [100, 130], ids=["equal starts", "equal ends"])
def test_operators_that_share_a_bound_nest(start: int) -> None:
    table = trace().op("aten::mat_mul", 100, 100).op("aten::mm", start, 70).table()
    assert op(table, "aten::mat_mul")["host_self"] == 30
    assert op(table, "aten::mm")["host_self"] == 70


def test_nested_operators_of_one_name() -> None:
    builder = trace().op("aten::mm", 100, 100, 2).op("aten::mm", 110, 80, 3).op("aten::mm", 120, 60, 4)
    table = builder.launches(K("k", 8, 300), at=130, dur=20).table()
    # Deviation (Operators): calls counts all three (the old plugin merged them into one); totals the outermost.
    assert op(table, "aten::mm") == {
        "calls": 3, "host_total": 100, "host_self": 20 + 20 + 40, "device_total": 8, "device_self": 8,
    }  # fmt: skip


def test_the_outer_of_two_operators_of_one_name_keeps_its_kernels() -> None:
    # Deviation (Operators): merging lost the outer one's launches; 7 would be missing.
    builder = trace().op("aten::mm", 100, 100).launches(K("k", 7, 300), at=105).op("aten::mm", 110, 80)
    table = builder.launches(K("k", 8, 320)).table()
    assert (op(table, "aten::mm")["device_total"], op(table, "aten::mm")["device_self"]) == (15, 15)


def test_a_launch_outside_every_operator() -> None:
    builder = trace().op("aten::mat_mul", 100, 100, ext=2, tid=1).call(130, 20, ext=335, corr=5, tid=9)
    table = builder.on_device(K("k", 8, 220), ext=335, corr=5).table()
    assert (op(table, "aten::mat_mul")["device_total"], op(table, "aten::mat_mul")["device_self"]) == (0, 0)
    assert row(table, "kernels", name="k")["calls"] == 1
    # Deviation (Operators): the time does not vanish, it has a row of its own.
    assert op(table, "(no operator)")["device_self"] == 8


def test_a_launch_in_a_step_without_operators() -> None:
    builder = trace().step(1, 100, 300, ext=2).call(130, 20, ext=2, corr=5)
    table = builder.on_device(K("k", 8, 220), ext=2, corr=5).table()
    assert costs(table) == {"1": [8, 0, 0, 0, 20, 0, 0, 272, 300]}
    # Deviation (Operators): the step is no operator; its kernel shows as (no operator).
    assert names(table) == {"(no operator)"}
    assert len(rows(table, "kernels")) == len(rows(table, "kernels", "kernels_by_launch")) == 1


def test_one_launch_of_two_kernels() -> None:
    first, second = K("ncclSend", 120318, 500), K("ncclSend", 132800, 400, device=1)
    table = trace().op("Broadcast", 100, 200, ext=2).launches(first, second, at=110, dur=5).table()
    assert op(table, "Broadcast")["device_self"] == op(table, "Broadcast")["device_total"] == 253118
    assert row(table, "kernels", name="ncclSend")["calls"] == 2
    assert len(rows(table, "kernels", "kernels_by_launch")) == 1


def test_without_steps_the_recording_is_one_step() -> None:
    builder = trace().op("aten::to", 100, 60, ext=3, tid=123).op("aten::nll_loss_backward", 300, 70, ext=4, tid=456)
    table = builder.launches(K("k", 100, 320), at=310, dur=20).table()
    assert costs(table) == {"0": [100, 0, 0, 0, 10, 0, 70, 140, 320]}
    assert op(table, "aten::nll_loss_backward")["host_self"] == 50
    assert op(table, "aten::nll_loss_backward")["device_self"] == 100


def two_steps(copy_dur: int) -> TraceBuilder:
    return (
        trace()
        .step(1, 100, 200, ext=1)
        .op("aten::to", 200, 60, ext=2)
        .launches(MC(copy_dur, 280), at=250, dur=5, name="cudaMemcpyAsync")
        .step(2, 350, 150, ext=3)
        .op("aten::mm", 360, 50, ext=4)
        .launches(K("gemm", 200, 410), at=400, dur=5)
    )


def test_two_steps_end_with_their_device_work() -> None:
    table = two_steps(copy_dur=40).table()
    assert costs(table) == {"1": [0, 40, 0, 0, 5, 0, 55, 120, 220], "2": [200, 0, 0, 0, 5, 0, 45, 10, 260]}
    assert facts(table)["overview.step_time_mean_ns"] == 240_000


def test_two_steps_whose_work_overlaps() -> None:
    builder = two_steps(copy_dur=100).on_device(K("earlier", 90, 150), ext=123, corr=123)
    assert costs(builder.table()) == {"1": [0, 100, 0, 0, 5, 0, 15, 20, 140], "2": [200, 0, 0, 0, 5, 0, 25, 0, 230]}


def test_self_time_leaves_out_launches() -> None:
    builder = trace().op("aten::mat_mul", 100, 100, ext=2).launches(K("k", 16, 240), at=170, dur=25)
    table = builder.op("aten::mm", 120, 40, ext=4).launches(K("k", 20, 210), at=150, dur=10).table()
    outer, inner = op(table, "aten::mat_mul"), op(table, "aten::mm")
    assert outer == {"calls": 1, "host_total": 100, "host_self": 35, "device_total": 36, "device_self": 16}
    assert inner == {"calls": 1, "host_total": 40, "host_self": 30, "device_total": 20, "device_self": 20}


def test_last_steps_without_device_work_are_left_out() -> None:
    builder = trace().step(1, 100, 200).step(2, 300, 100).step(3, 400, 50)
    builder.on_device(K("earlier", 20, 90), corr=7).call(125, 5, corr=8).on_device(K("k", 180, 150), corr=8)
    table = builder.table()
    assert {label: cost[-1] for label, cost in costs(table).items()} == {"1": 220}
    assert table.steps.dropped == ("2", "3")


def test_steps_of_a_host_alone() -> None:
    builder = trace().step(1, 100, 200).op("aten::to", 120, 10).step(2, 300, 100).op("aten::mm", 350, 40)
    assert costs(builder.table()) == {"1": [0, 0, 0, 0, 0, 0, 10, 190, 200], "2": [0, 0, 0, 0, 0, 0, 40, 60, 100]}


def work(name: str, at: int, dur: int, blocks: float, occupancy: int) -> Any:
    return K(name, dur, at, device=1, blocks_per_sm=blocks, occupancy=occupancy)


def device_ratios() -> tuple[TraceTable, Any]:
    builder = (
        trace()
        .op("aten::mat_mul", 100, 100, ext=2)
        .launches(work("gemmSN", 135, 15, 0.6, 10), work("gemmSN", 150, 0, 0.3, 20), work("K1", 200, 20, 10.5, 30))
    )
    builder.op("aten::mm", 120, 70, ext=4).launches(work("K1", 130, 10, 0.5, 60), work("K1", 145, 25, 0.3, 100))
    table = builder.table()
    return table, facts(table)


def test_device_ratios_without_steps() -> None:
    _, found = device_ratios()
    assert found["device.1.utilization"] == 60 / 120
    segments = 0.5 * 5 + 1 * 5 + 0.6 * 5 + 0.9 * 5 + 0.3 * 20 + 1 * 20
    assert found["device.1.sm_efficiency"] == pytest.approx(segments / 120, rel=1e-12)
    assert found["device.1.occupancy"] == pytest.approx((0.6 * 10 + 0.1 * 15 + 1 * 25 + 0.3 * 20) / 70, rel=1e-12)


def test_means_of_kernels_are_weighted_by_duration() -> None:
    table, _ = device_ratios()

    def means(**where: str) -> tuple[float, float]:
        found = row(table, "kernels", "kernels_by_launch" if "operator" in where else "kernels", **where)
        return found["mean_blocks_per_sm"], found["mean_occupancy"]

    assert means(name="gemmSN", operator="aten::mat_mul") == pytest.approx((0.6, 0.1))
    assert means(name="K1", operator="aten::mm") == pytest.approx(((0.5 * 10 + 0.3 * 25) / 35, (6 + 25) / 35))
    assert means(name="K1", operator="aten::mat_mul") == pytest.approx((10.5, 0.3))
    assert means(name="gemmSN") == pytest.approx((0.6, 0.1))
    assert means(name="K1") == pytest.approx(((5 + 7.5 + 210) / 55, (6 + 25 + 6) / 55))


def test_device_ratios_of_kernels_outside_the_steps() -> None:
    builder = trace().step(2, 100, 100)
    builder.op("aten::mat_mul", 10, 10).launches(K("k", 20, 60, device=1, blocks_per_sm=0.5, occupancy=60))
    builder.op("aten::mm", 220, 20).launches(K("k", 25, 240, device=1, blocks_per_sm=10.5, occupancy=30))
    table = builder.table()
    found = facts(table)
    assert found["device.1.utilization"] == 0
    assert found["device.1.sm_efficiency"] is None and found["device.1.occupancy"] is None
    mean = row(table, "kernels", name="k")
    assert mean["mean_blocks_per_sm"] == pytest.approx((0.5 * 20 + 10.5 * 25) / 45)
    assert mean["mean_occupancy"] == pytest.approx((0.6 * 20 + 0.3 * 25) / 45)


def test_kernels_group_by_operator_and_launch() -> None:
    builder = trace().op("op1", 0, 10)
    for dur, block in ((15, [16, 16, 16]), (10, [16, 16, 16]), (13, [16, 16, 64])):
        builder.launches(K("k", dur, 100, grid=[1, 1, 1], block=block, registers=8, shared_memory=0))
    builder.op("op2", 20, 10).launches(
        K("k", 17, 200, grid=[1, 1, 1], block=[16, 16, 16], registers=8, shared_memory=0)
    )
    found = rows(builder.table(), "kernels", "kernels_by_launch")
    assert [(r["operator"], r["block"], r["calls"], r["total_ns"] / 1000) for r in found] == [
        ("op1", "[16, 16, 16]", 2, 25),  # by total, the old plugin's order was that of the file
        ("op2", "[16, 16, 16]", 1, 17),
        ("op1", "[16, 16, 64]", 1, 13),
    ]
    assert (found[0]["mean_ns"], found[0]["min_ns"], found[0]["max_ns"]) == (12_500, 10_000, 15_000)


def test_what_a_launch_does_not_say_is_a_group_of_its_own_and_stays_null() -> None:
    everything = {"grid": [1, 1, 1], "block": [2, 2, 2], "registers": 8, "shared_memory": 0}
    builder = trace().op("op", 0, 10).launches(K("k", 1, 100, **everything))
    for i, key in enumerate(everything):
        builder.launches(K("k", 2 + i, 100, **{k: v for k, v in everything.items() if k != key}))
    found = rows(builder.table(), "kernels", "kernels_by_launch")
    assert len(found) == 5
    assert [[key for key in everything if r[key] is None] for r in found] == [
        ["shared_memory"], ["registers"], ["block"], ["grid"], [],
    ]  # fmt: skip


def test_tensor_cores() -> None:
    builder = trace().device(0).op("aten::conv2d", 200, 100, ext=3)
    builder.op("op_no_tc", 205, 10, ext=4).launches(K("kernel_no_tc", 10, 300))
    builder.op("aten::cudnn_convolution", 215, 10, ext=5)
    builder.launches(K("volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_filter1x1_stg8_interior_nchw_nn_v1", 15, 320))
    table = builder.table()

    def tensor(name: str) -> tuple[bool, float, float]:
        found = row(table, "operators", name=name)
        return found["matrix_eligible"], found["matrix_self_ratio"], found["matrix_total_ratio"]

    assert tensor("aten::conv2d") == (True, 0, 0.6)
    assert tensor("op_no_tc") == (False, 0, 0)
    assert tensor("aten::cudnn_convolution") == (True, 1, 1)
    assert facts(table)["device.0.tensor_core_ratio"] == 0.6
    eligible = {r["name"]: r["matrix_eligible"] for r in rows(table, "kernels", "kernels_by_launch")}
    assert sorted(eligible.values()) == [False, True] and not eligible["kernel_no_tc"]


def test_share_of_eligible_operators() -> None:
    builder = trace().op("aten::conv2d", 200, 100).op("op_no_tc", 205, 10).launches(K("kernel_no_tc", 10, 300))
    builder.op("aten::cudnn_convolution", 215, 10).launches(K("volta_fp16_s884", 15, 320))
    assert matrix_eligible(builder.table()).ratio == 0.6


def nccl(broadcast: Any, add: Any, all_reduce: Any) -> TraceTable:
    """Per item: host start and duration, kernel start and duration. No launch was recorded."""
    builder = trace()
    items = zip(("nccl:broadcast", "aten::add_", "nccl:all_reduce"), (146, 24504, 2513), strict=True)
    for (name, ext), (at, dur, kernel_at, kernel_dur) in zip(items, (broadcast, add, all_reduce), strict=True):
        builder.op(name, at, dur, ext=ext, tid=ext).on_device(K(f"k{ext}", kernel_dur, kernel_at), ext=ext, corr=ext)
    return builder.table()


def test_costs_with_nccl() -> None:
    # Deviations: (Step) old: the recording ends with the host, at 235 and 235, in the midst of the last kernel;
    # (Step breakdown) old: the host calls are communication as well, 75 and 74.
    assert costs(nccl((0, 75, 16, 16), (100, 20, 130, 161), (160, 75, 162, 1556))) == {
        "0": [161, 0, 0, 1443, 0, 0, 79, 35, 1718]
    }
    assert costs(nccl((0, 20, 8, 31), (25, 20, 30, 161), (160, 75, 562, 1058)))["0"][3] == 1080


GLOO = {
    "w0": ([(16, 38), (25, 36), (66, 18)], (0, 20), (30, 101), [(110, 18), (120, 36)]),
    "w1": ([(20, 28), (28, 30), (77, 6)], (0, 30), (70, 70), [(88, 38), (130, 16)]),
}


@pytest.mark.parametrize(
    ("worker", "on_device", "expected"),
    [
        ("w0", True, [101, 0, 0, 39, 0, 0, 16, 0, 156]),
        ("w1", True, [70, 0, 0, 44, 0, 0, 20, 12, 146]),
        # Deviation (Step breakdown): old: what the host computes meanwhile hides nothing, 109 and 98.
        ("w0", False, [0, 0, 0, 35, 0, 0, 121, 0, 156]),
        ("w1", False, [0, 0, 0, 34, 0, 0, 100, 12, 146]),
    ],
)
def test_costs_with_gloo(worker: str, on_device: bool, expected: list[int]) -> None:
    broadcasts, add, multiply, all_reduces = GLOO[worker]
    builder = trace().op("aten::add_", *add, ext=24504)
    for i, (at, dur) in enumerate(broadcasts):
        builder.op("gloo:broadcast", at, dur, ext=165 + i, tid=10 + i)
    for i, (at, dur) in enumerate(all_reduces):
        builder.op("gloo:all_reduce", at, dur, ext=2513 + i, tid=20 + i)
    at, dur = multiply
    if on_device:
        builder.on_device(K("k", dur, at), ext=24504, corr=1)
    else:
        builder.op("aten::mul", at, dur, ext=24504, tid=30)
    assert costs(builder.table()) == {"0": expected}


def test_an_annotation_alone_can_be_communication() -> None:
    table = trace().annotation("nccl:all_reduce", 10, 5).op("aten::mm", 0, 20).table()
    assert table.is_collective[named(table, "nccl:all_reduce")]
    assert costs(table) == {"0": [0, 0, 0, 5, 0, 0, 15, 0, 20]}


def test_hierarchy_of_modules() -> None:
    builder = trace().python("root", 0, 400, id=1)
    for i in range(3):
        at = 10 + 100 * i
        builder.module("MyModule", at, 90, number=0, id=2 + 2 * i, parent=1)
        builder.module("Linear", at + 5, 50, number=1, id=3 + 2 * i, parent=2 + 2 * i).op("aten::addmm", at + 10, 20)
    builder.module("Conv2", 320, 30, number=100, id=8, parent=1)
    tree = part_tree(builder.table())
    assert tree == [("Conv2_100", None, 1), ("Linear_1", "MyModule_0", 3), ("MyModule_0", None, 3)]


def part_tree(table: TraceTable) -> list[tuple[str, str | None, int]]:
    """Module, module above it, calls."""
    tree: Any = part(table, "modules").payloads["tree"]
    labels = [node["module"] for node in tree.rows]
    return sorted(
        (node["module"], None if above < 0 else labels[above], node["calls"])
        for node, above in zip(tree.rows, tree.parent, strict=True)
    )


def test_a_data_pipe_is_input() -> None:
    table = trace().annotation("enumerate(DataPipe)#ShufflerIterDataPipe", 100, 23).op("aten::mm", 130, 10).table()
    loader = trace().op("enumerate(DataPipe)#ShufflerIterDataPipe", 100, 23).op("aten::mm", 90, 50).table()
    assert names(table) == names(loader) == {"aten::mm"}
    assert costs(loader) == {"0": [0, 0, 0, 0, 0, 23, 27, 0, 50]}


def test_device_copies_of_annotations_are_no_steps() -> None:
    # Deviation (Step): the old plugin shows steps 0, 0, 1, 1 with a spurious microsecond each; and no host time (Events).
    builder = trace().step(0, 0, 100).op("a", 10, 20).launches(K("k", 30, 40))
    builder.step(1, 100, 100).op("a", 110, 20).launches(K("k", 30, 140))
    builder.device_annotation("ProfilerStep#0", 40, 30).device_annotation("ProfilerStep#1", 140, 30)
    table = builder.device_annotation("forward", 40, 60).table()
    assert costs(table) == {str(i): [30, 0, 0, 0, 0, 0, 20, 50, 100] for i in (0, 1)}


def test_driver_launches_are_linked() -> None:
    # Deviation (Events): old: dropped, the kernel belongs to CallTreeRoot.
    builder = trace().step(0, 0, 100).op("triton_op", 10, 20).launches(K("triton_poi", 9, 40), name="cuLaunchKernel")
    assert op(builder.table(), "triton_op")["device_self"] == 9


def test_operators_that_overlap_in_part_are_kept() -> None:
    # Deviation (Events, "Nesting"): old: discarded, with their kernels.
    builder = trace().op("aten::copy_", 893, 75).op("aten::inner", 901, 78).launches(K("k", 7, 990), at=970)
    table = builder.table()
    assert op(table, "aten::inner") == {
        "calls": 1, "host_total": 78, "host_self": 78, "device_total": 7, "device_self": 7,
    }  # fmt: skip
    assert facts(table)["trace.partial_overlaps"] == 1


def test_kernels_of_a_collective_are_linked_by_launch() -> None:
    # Deviation (Events, "Communication"): old: ten exact names, joined by external id.
    builder = trace().step(1, 0, 100).op("c10d::allreduce_", 10, 20).op("record_param_comms", 12, 10)
    table = builder.launches(K("anything", 30, 40)).table()
    assert costs(table) == {"1": [0, 0, 0, 30, 0, 0, 20, 50, 100]}
    assert facts(table)["device.0.communication_ns"] == 30_000


def test_recursion_counts_once_in_totals() -> None:
    # Deviation (Operators): old: nested recursion counts twice in host and device total.
    builder = trace().op("f", 0, 100).op("g", 10, 80).op("f", 20, 60).launches(K("k", 5, 200))
    table = builder.table()
    assert op(table, "f") == {"calls": 2, "host_total": 100, "host_self": 80, "device_total": 5, "device_self": 5}
    assert op(table, "g")["device_total"] == 5


@pytest.mark.parametrize("args", [{"tid": "stream x"}, {"tid": "0x7f"}, {"tid": None}])
def test_a_thread_that_is_no_number(args: Any) -> None:
    # Deviation (Differences): old: the worker is dropped.
    assert op(trace().op("aten::mm", 0, 10, **args).table(), "aten::mm")["host_total"] == 10


@pytest.mark.parametrize("device", [64, 1000, "npu:3"])
def test_a_device_id_beyond_63(device: Any) -> None:
    # Deviation (Differences): old: ids from 64 on crash.
    table = trace().op("aten::mm", 0, 10).launches(K("k", 5, 10, device=device)).table()
    assert facts(table)[f"device.{device}.kernels"] == 1


def test_a_device_that_is_not_named_is_its_process() -> None:
    # Deviation (Differences): old: a missing args.device crashes the Tensor-Core ratio.
    table = trace().op("aten::mm", 0, 10).event("kernel", "k", 20, 5, 3, 7, correlation=9).table()
    assert facts(table)["device.3.kernels"] == 1


def test_a_first_accumulate_grad_and_many_flows_into_one_backward() -> None:
    # Deviation (Modules): old: either drops the worker.
    builder = trace().step(0, 0, 500).module("M", 10, 100, id=1).op("aten::mm", 20, 10, sequence=1)
    builder.op("aten::t", 40, 10, sequence=2).arrow(20, 300).arrow(40, 300).arrow(40, 200)
    builder.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 200, 20, tid=2)
    builder.op("autograd::engine::evaluate_function: MmBackward0", 300, 30, tid=2).launches(K("k", 10, 320))
    table = builder.table()
    assert row(table, "modules", module="M_0")["backward_device_total_ns"] == 10_000
