"""Rates of operators, kernels and modules, and the FLOPs utilization of steps, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.operator_calls import operator_calls
from tb_plugin.analysis.phrases import INCOMPLETE
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.work.operator_work import operator_work
from tb_plugin.analysis.work.rates import kernel_work, nested_work
from tb_plugin.errors import UnreadableTrace
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.payloads import Notices
from tests.builders import TraceBuilder, figures, kernel, model, part, payload_of, row, rows, trace
from tests.depth import examples
from tests.views.test_backward import node
from tests.views.test_recomputation import CHECKPOINT
from tests.views.test_roofline import F16, F32, H100, product

# FLOPs of a product of two square matrices, and its least time on an H100 in nanoseconds.
FLOPS = 2 * 4096**3
LEAST_NS = FLOPS / 989e3


def on_h100(builder: TraceBuilder) -> Any:
    return builder.device(0, name=H100, computeMajor=9).table()


def linear(builder: TraceBuilder, at: int, dur: int, types: tuple[str, str] = (F16, F16)) -> TraceBuilder:
    """Adds an operator of 100 us: a product, and a kernel of 100 us of an operator without a formula."""
    builder.op("aten::linear", at, 100)
    product(builder, at + 1, dur, 4096, types)
    return builder.op("custom::bias", at + 20, 8).launches(kernel("bias", 100, at + 500))


def test_an_operator_has_the_rates_of_its_nested_operators() -> None:
    table = on_h100(linear(linear(trace(), 0, 200), 1000, 300))
    mm = row(table, "operators", "operators", name="aten::mm")
    assert mm["tflops_per_second"] == pytest.approx(2 * FLOPS / 500e3 / 1e3)
    assert mm["moved_bandwidth"] == pytest.approx(2 * 3 * 2 * 4096**2 / 500e3 * 1e9)
    assert mm["peak_ratio"] == pytest.approx(2 * LEAST_NS / 500e3)
    assert (mm["bound"], mm["covered_ratio"]) == ("compute", 1)
    outer = row(table, "operators", "operators", name="aten::linear")
    for key in ("tflops_per_second", "moved_bandwidth", "peak_ratio", "bound"):
        assert outer[key] == mm[key]  # over the part with known FLOPs
    assert outer["covered_ratio"] == pytest.approx(500 / 700)
    unknown = row(table, "operators", "operators", name="custom::bias")
    assert (unknown["tflops_per_second"], unknown["peak_ratio"], unknown["bound"]) == (None, None, None)
    assert unknown["covered_ratio"] == 0
    by_shape = [each for each in rows(table, "operators", "operators_by_shape") if each["name"] == "aten::mm"]
    assert [each["peak_ratio"] for each in by_shape] == [pytest.approx(mm["peak_ratio"])]


def test_a_call_that_runs_all_kernels_of_its_caller_has_the_rates_of_the_caller() -> None:
    builder = trace().op("aten::embedding", 0, 10, shapes=[[100, 8], [2, 3]], **{"Input type": [F32, "long int"]})
    builder.op("aten::index_select", 2, 5).launches(kernel("select", 4, 20))
    table = on_h100(builder)
    names = ("aten::embedding", "aten::index_select")
    assert [row(table, "operators", "operators", name=name)["moved_bandwidth"] for name in names] == [
        pytest.approx((2 * 6 * 32 + 6 * 8) / 4e3 * 1e9)
    ] * 2


def test_number_formats_with_and_without_a_peak_in_one_row() -> None:
    builder = product(product(trace(), 0, 200, 4096), 1000, 5_000, 4096, (F32, F32), "sgemm")
    builder.op("aten::mm", 9000, 8, shapes=[[64, 64]] * 2, **{"Input type": ["double", "double"]})
    builder.launches(kernel("dgemm", 300, 9010))
    found = row(on_h100(builder), "operators", "operators", name="aten::mm")
    assert found["tflops_per_second"] == pytest.approx((2 * FLOPS + 2 * 64**3) / 5_500e3 / 1e3)
    # The product in double precision has no peak, so it is not part of the share.
    assert found["peak_ratio"] == pytest.approx((FLOPS / 989e3 + FLOPS / 67e3) / 5_200e3)
    assert found["covered_ratio"] == 1


def test_above_the_peak_and_without_devices_no_share_is_shown() -> None:
    found = row(on_h100(product(trace(), 0, 100, 4096)), "operators", "operators", name="aten::mm")
    assert (found["peak_ratio"], found["bound"]) == (None, "above peak")
    unknown = row(product(trace(), 0, 200, 4096).device(0, name="Future GPU").table(), "operators", name="aten::mm")
    assert unknown["tflops_per_second"] > 0
    assert (unknown["peak_ratio"], unknown["bound"]) == (None, None)
    columns = [
        each.metric.key
        for each in part(product(trace(), 0, 200, 4096).device(0, name="Future GPU").table(), "operators")
        .frames["operators"]
        .columns
    ]
    assert "tflops_per_second" in columns and "peak_ratio" not in columns and "bound" not in columns
    on_host = trace().op("aten::mm", 0, 9, shapes=[[64, 64]] * 2, **{"Input type": [F32, F32]}).table()
    columns = part(on_host, "operators").frames["operators"].data.column_names
    assert "peak_ratio" not in columns and "bound" not in columns


def test_collectives_are_no_part_of_the_kernel_time() -> None:
    builder = trace().op("aten::linear", 0, 100)
    product(builder, 1, 200, 4096).op("c10d::allreduce_", 30, 8).launches(kernel("ncclDevKernel_AllReduce", 700, 600))
    found = {each["name"]: each["covered_ratio"] for each in rows(on_h100(builder), "operators", "operators")}
    assert found == {"aten::linear": 1, "aten::matmul": 1, "aten::mm": 1, "c10d::allreduce_": None}


def test_a_kernel_has_rates_if_it_is_always_the_only_one_of_its_operator() -> None:
    builder = product(product(trace(), 0, 200, 4096), 1000, 300, 4096)
    builder.op("aten::mm", 2000, 8, shapes=[[4096, 4096]] * 2, **{"Input type": [F16, F16]})
    builder.launches(kernel("split_k", 200, 2100), kernel("reduce", 50, 2400))
    builder.op("other", 3000, 8).launches(kernel("lone", 30, 3100), kernel("ncclDevKernel_AllReduce", 9, 3200))
    found = {each["name"]: each["peak_ratio"] for each in rows(on_h100(builder), "kernels")}
    assert found.pop("gemm") == pytest.approx(2 * LEAST_NS / 500e3)
    assert found == {"split_k": None, "reduce": None, "lone": None, "ncclDevKernel_AllReduce": None}


def net(builder: TraceBuilder) -> TraceBuilder:
    """Adds a module with a module inside: a forward product of 200 us, one of 400 us backward, 200 us without FLOPs."""
    builder.module("Net", 0, 90).module("Linear", 10, 50, number=1)
    size = {"shapes": [[4096, 4096]] * 2, "Input type": [F16, F16]}
    builder.op("aten::mm", 20, 10, sequence=5, **size).launches(kernel("fw", 200, 100))
    builder.op("custom", 70, 10).launches(kernel("custom", 200, 320))
    node(builder, "MmBackward0", 600, 30, sequence=5, forward_thread=1)
    return builder.op("aten::mm", 605, 10, tid=2, **size).launches(kernel("bw", 400, 700))


def test_a_module_has_the_rates_of_its_forward_and_backward_pass() -> None:
    table = on_h100(net(trace()))
    outer, inner = (row(table, "modules", module=name) for name in ("Net_0", "Linear_1"))
    assert (inner["device_total_ns"], inner["backward_device_total_ns"]) == (200_000, 400_000)
    for found in (outer, inner):
        assert found["peak_ratio"] == pytest.approx(2 * LEAST_NS / 600e3)
        assert found["tflops_per_second"] == pytest.approx(2 * FLOPS / 600e3 / 1e3)
        assert found["bound"] == "compute"
    assert (outer["covered_ratio"], inner["covered_ratio"]) == (pytest.approx(600 / 800), 1)
    tree: Any = part(table, "modules").payloads["tree"]
    assert [each["peak_ratio"] for each in tree.rows] == [outer["peak_ratio"], inner["peak_ratio"]]


def test_layers_of_one_class_have_the_rates_of_their_sum() -> None:
    builder = trace().module("Net", 0, 4000)
    for i in range(3):
        builder.module("Linear", 10 + 1000 * i, 50, number=i)
        product(builder, 20 + 1000 * i, 200 + 100 * i, 4096)
    tree: Any = part(on_h100(builder), "modules").payloads["tree"]
    found = {each["module"]: each["peak_ratio"] for each in tree.rows}
    assert found["Linear × 3"] == found["Net_0"] == pytest.approx(3 * LEAST_NS / 900e3)
    assert found["Linear_2"] == pytest.approx(LEAST_NS / 400e3)


def two_steps(rest_us: int = 40) -> TraceBuilder:
    """Two steps of 1 ms: a product in fp16, and one in fp32; ``rest_us``: a kernel without FLOPs in the second."""
    builder = trace().step(1, 0, 1000).step(2, 1000, 2000)
    product(builder, 10, 200, 4096)
    product(builder, 1010, 900, 2048, (F32, F32), "sgemm")
    return builder.op("custom", 1200, 5).launches(kernel("custom", rest_us, 2000))


def test_the_utilization_of_steps_with_several_number_formats() -> None:
    found = part(on_h100(two_steps()), "overview")
    half, single = LEAST_NS, 2 * 2048**3 / 67e3
    assert found.frames["steps"].data["mfu"].to_pylist() == [pytest.approx(half / 1e6), pytest.approx(single / 2e6)]
    assert "hfu" not in found.frames["steps"].data.column_names
    shown = {each.metric.key: each for each in found.payloads["headline"].figures}
    assert shown["mfu"].value == pytest.approx((half + single) / 3e6)
    assert shown["mfu"].note == "96 % of kernel time covered, without communication"  # 1,100 of 1,140 us
    assert "hfu" not in shown
    second = part(on_h100(two_steps()), "overview", steps=("2",))
    assert figures(second.payloads["headline"])["mfu"] == pytest.approx(single / 2e6)


def test_the_utilization_needs_known_flops_and_peaks() -> None:
    # 1,100 of 2,000 us
    found = part(on_h100(two_steps(rest_us=900)), "overview")
    assert "mfu" not in figures(found.payloads["headline"])
    assert "mfu" not in found.frames["steps"].data.column_names
    # 1,100 of 1,350 us are enough; in the second step, 900 of 1,150 us are not.
    found = part(on_h100(two_steps(rest_us=250)), "overview")
    assert found.frames["steps"].data["mfu"].to_pylist() == [pytest.approx(LEAST_NS / 1e6), None]
    unknown = part(two_steps().device(0, name="Future GPU").table(), "overview")
    assert "mfu" not in figures(unknown.payloads["headline"])
    # Double precision has no peak here.
    builder = two_steps()
    builder.op("aten::mm", 1300, 8, shapes=[[64, 64]] * 2, **{"Input type": ["double", "double"]})
    found = part(on_h100(builder.launches(kernel("dgemm", 900, 2100))), "overview")
    assert "mfu" not in figures(found.payloads["headline"])


def test_all_views_leave_out_collectives_and_kernels_without_a_launch() -> None:
    builder = two_steps(rest_us=100)
    builder.op("c10d::allreduce_", 1300, 8).launches(kernel("ncclDevKernel_AllReduce", 5000, 1400))
    table = on_h100(builder.on_device(kernel("unlaunched", 7000, 3000)))
    expected = 1100 / 1200
    assert figures(part(table, "roofline").payloads["summary"])["covered_ratio"] == pytest.approx(expected)
    (mfu,) = [each for each in part(table, "overview").payloads["headline"].figures if each.metric.key == "mfu"]
    assert mfu.note == "92 % of kernel time covered, without communication"


def test_views_of_a_truncated_file_say_so() -> None:
    """The second step lacks a kernel, so it is no step. Utilization and new step times are unknown."""
    builder = trace().step(1, 0, 1000).step(2, 1000, 2000).device(0, name=H100, computeMajor=9)
    for at in (10, 210, 410, 610, 810, 1010, 1210, 1410, 1610):
        product(builder, at, 180, 4096)
    content = builder.bytes()
    for size, labels, notes in ((len(content), ["1", "2"], []), (len(content) - 6, ["1"], [INCOMPLETE])):
        table = model(content[:size])
        path, overview = (part(table, name) for name in ("critical_path", "overview"))
        assert [each.text for each in payload_of(path, "answer", Notices).notices[1:]] == notes
        assert ("mfu" in figures(overview.payloads["headline"])) == (not notes)
        assert overview.frames["steps"].data["step"].to_pylist() == labels
    text = payload_of(overview, "largest_costs", Notices).notices[0].text
    assert text.startswith("The file is incomplete")
    with pytest.raises(UnreadableTrace, match="The file is truncated"):
        part(table, "whatif")


def test_several_devices_share_the_step() -> None:
    builder = trace().step(1, 0, 1000)
    product(builder, 10, 200, 4096)
    builder.op("aten::mm", 500, 8, shapes=[[4096, 4096]] * 2, **{"Input type": [F16, F16]})
    builder.launches(kernel("gemm", 200, 510, device=1)).device(1, name=H100, computeMajor=9)
    found = figures(part(on_h100(builder), "overview").payloads["headline"])
    assert found["mfu"] == pytest.approx(2 * LEAST_NS / (2 * 1e6))


def test_recomputation_counts_as_hardware_utilization_only() -> None:
    builder = trace().step(1, 0, 2000)
    product(builder, 10, 200, 4096)
    node(builder, "MmBackward0", 500, 300, sequence=5, forward_thread=1).python(CHECKPOINT, 510, 100, tid=2)
    size = {"shapes": [[4096, 4096]] * 2, "Input type": [F16, F16]}
    builder.op("aten::mm", 520, 10, tid=2, **size).launches(kernel("again", 200, 600))
    builder.op("aten::mm", 700, 10, tid=2, **size).launches(kernel("backward", 200, 900))
    found = figures(part(on_h100(builder), "overview").payloads["headline"])
    assert (found["mfu"], found["hfu"]) == (pytest.approx(2 * LEAST_NS / 2e6), pytest.approx(3 * LEAST_NS / 2e6))


LEAF = st.tuples(
    st.sampled_from(("aten::mm", "aten::add", "custom")), st.sampled_from((8, 64, 4096)), st.integers(1, 900)
)


@examples(20, 200)
@given(st.lists(st.tuples(st.booleans(), st.lists(LEAF, max_size=3)), min_size=1, max_size=5))
def test_flops_of_the_leaves_are_those_of_the_roofline(blocks: list[tuple[bool, list[tuple[str, int, int]]]]) -> None:
    builder, at = trace(), 0
    for has_formula, leaves in blocks:
        shapes = {"shapes": [[64, 64]] * 2, "Input type": [F16, F16]} if has_formula else {}
        builder.op("aten::mul" if has_formula else "block", at, 4000, **shapes)
        for i, (name, size, dur) in enumerate(leaves):
            builder.op(name, at + 1000 * i, 9, shapes=[[size, size]] * 2, **{"Input type": [F16, F16]})
            builder.launches(kernel(f"k{name}", dur, at + 1000 * i + 20))
        at += 5000
    table = on_h100(builder.op("aten::mm", at, 9, shapes=[[8, 8]] * 2, **{"Input type": [F16, F16]}).launches(kernel()))
    selection = select_rows(table, None)
    calls, kernels = operator_calls(table, selection), selection.of(table, EventKind.KERNEL)
    work = operator_work(table, None)
    every = nested_work(table, work, calls, kernels)
    top = calls.parent[every.call] < 0
    one = kernel_work(table, work, kernels, np.zeros(len(kernels), np.int64), 1)
    for key in ("flops", "bytes", "kernel_ns", "least_ns"):
        inside = every.with_nested(getattr(every.work, key), every.place)
        assert inside[top].sum() == pytest.approx(getattr(one, key)[0])
    total = part(table, "roofline").facts["roofline.flops"]
    assert every.work.flops.sum() == pytest.approx(total, abs=1)
    assert (every.with_nested(every.work.kernel_ns, every.place) <= calls.kernel_total_ns[every.call]).all()
    if not any(has_formula for has_formula, _ in blocks):
        leaves = [each for each in rows(table, "operators", "operators") if each["name"] != "block"]
        flops = sum(
            each["tflops_per_second"] * 1e3 * each["covered_ratio"] * each["device_total_ns"]
            for each in leaves
            if each["covered_ratio"]
        )
        assert flops == pytest.approx(total, rel=1e-6, abs=1)


def test_damaged_shapes_have_no_work() -> None:
    """Shapes of 10^19 bytes do not fit into 64 bits."""
    builder = trace().device(0, name="NVIDIA H100 80GB HBM3", computeMajor=9).step(0, 0, 1000)
    for at, name, shapes in ((0, "aten::relu", [[3 * 10**9, 10**9]]), (200, "aten::mm", [[10**9, 10**9]] * 2)):
        builder.op(name, at, 100, shapes=shapes, **{"Input type": ["float"] * len(shapes)}).launches(kernel("k", 50))
    table = builder.table()
    assert part(table, "roofline").frames["roofline"].data.num_rows == 0
    for view in ("operators", "kernels", "modules", "overview"):
        part(table, view)
