"""FLOPs and bytes by hand, nested calls, peaks, and the table of the view."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.work import formulas
from tb_plugin.analysis.work.formulas import work_of
from tb_plugin.analysis.work.inputs import Work
from tb_plugin.registry import analysis_by_id
from tests.builders import TraceBuilder, figures, kernel, model, part, trace
from tests.depth import needs_time

F32, F16, BF16, FP8, I64 = "float", "c10::Half", "c10::BFloat16", "c10::Float8_e4m3fn", "long int"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "tracelens"


def work(name: str, shapes: list, types: list, values: list | None = None) -> Work | None:
    return work_of(f"aten::{name}", json.dumps(shapes), json.dumps(types), json.dumps(values) if values else "")


CONV = ["", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "False"]
BACKWARD = ["", "", "", "[0]", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]


@pytest.mark.parametrize(
    ("name", "shapes", "types", "values", "flops", "moved"),
    [
        # 2 * 3 * 4 * 5, and 3*4 + 4*5 + 3*5 numbers of 4 bytes
        ("mm", [[3, 4], [4, 5]], [F32, F32], None, 120, 4 * 47),
        ("addmm", [[5], [3, 4], [4, 5], [], []], [F16, F16, F16, "Scalar", "Scalar"], None, 120 + 15, 2 * (47 + 5)),
        ("bmm", [[2, 3, 4], [2, 4, 5]], [BF16, BF16], None, 240, 2 * 2 * 47),
        ("baddbmm", [[2, 3, 5], [2, 3, 4], [2, 4, 5]], [F32] * 3, None, 240 + 30, 4 * (2 * 47 + 30)),
        ("_scaled_mm", [[3, 4], [4, 5]], [FP8, FP8], None, 120, 12 + 20 + 2 * 15),
        ("mv", [[3, 4], [4]], [F32, F32], None, 24, 4 * (12 + 4 + 3)),
        # output 1 x 8 x 4 x 4; each element 2 * 2 * 3 * 3
        ("miopen_convolution", [[1, 2, 8, 8], [8, 2, 3, 3], []], [F32, F32, ""], CONV, 128 * 36, 4 * (128 + 144 + 128)),
        (
            "cudnn_convolution",  # groups: the second dimension of the weight is 1
            [[1, 2, 8, 8], [8, 1, 3, 3]],
            [F16, F16],
            ["", "", "[0, 0]", "[1, 1]", "[2, 2]", "2", "False", "False", "True"],
            8 * 4 * 4 * 18,
            2 * (128 + 72 + 128),
        ),
        (
            "_convolution",  # transposed: (4 - 1) * 2 - 2 * 1 + 2 + 1 + 1 = 8
            [[1, 6, 4, 4], [6, 2, 3, 3], [2]],
            [F32] * 3,
            ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "True", "[1, 1]", "1", "False"],
            2 * 96 * 18 + 2 * 64,
            4 * (96 + 108 + 2 + 2 * 64),
        ),
        (
            "convolution_backward",
            [[1, 8, 6, 6], [1, 2, 8, 8], [8, 2, 3, 3]],
            [F32] * 3,
            BACKWARD,
            2 * (288 * 36),
            4 * (288 + 2 * (144 + 128)),
        ),
        (
            "_scaled_dot_product_flash_attention",
            [[2, 4, 10, 8]] * 3,
            [F16] * 3,
            ["", "", "", "0.", "False", "False", "0.125"],
            2 * 8 * 100 * 16,
            2 * 4 * 640,
        ),
        (
            "_flash_attention_forward",  # causal, two heads share one key: 10 * 11 / 2 pairs
            [[2, 10, 4, 8], [2, 10, 2, 8], [2, 10, 2, 8]],
            [F16] * 3,
            ["", "", "", "", "", "10", "10", "0.", "True"],
            2 * 8 * 55 * 16,
            2 * (2 * 640 + 2 * 320),
        ),
        (
            "_scaled_dot_product_efficient_attention_backward",
            [[2, 4, 10, 8]] * 4,
            [F16] * 4,
            ["", "", "", "", "", "", "", "", "", "0.", "", "False"],
            2 * 8 * 100 * (3 * 8 + 2 * 8),
            2 * 8 * 640,
        ),
        ("native_layer_norm", [[6, 4], [], [4], [4]], [F32, "", F32, F32], None, 5 * 24, 4 * (48 + 8)),
        ("_softmax", [[6, 4], [], []], [F16, "", ""], ["", "-1", "True"], 5 * 24, 24 * (2 + 4)),
        ("relu_", [[6, 4]], [F32], None, 24, 4 * 48),
        ("add", [[6, 1], [4], []], [F16, F32, ""], None, 24, 2 * 6 + 4 * 4 + 4 * 24),
        ("mul", [[6, 4], []], [F16, "double"], None, 24, 2 * 48),
        ("eq", [[6], [6]], [I64, I64], None, 6, 6 * (8 + 8 + 1)),
        ("copy_", [[6], [6]], [F16, F32], None, 0, 6 * 6),
        ("cat", [[[2, 3], [4, 3]], []], [[F32, F32], "Scalar"], ["", "0"], 0, 2 * 4 * 18),
        ("sum", [[6, 4], [], []], [F32, "ScalarList", "Scalar"], ["", "[0]", "False"], 24, 4 * 28),
        ("mean", [[6, 4], []], [F32, ""], ["", ""], 24, 4 * 25),
        ("embedding", [[100, 8], [2, 3]], [F32, I64], None, 0, 2 * 6 * 32 + 6 * 8),
        ("threshold_backward", [[6], [6], []], [F32, F32, "Scalar"], None, 18, 4 * 18),
        ("_fused_adamw_", [[[6], [4]]] * 4, [[F32, F32]] * 4, None, 120, 7 * 40),
        ("_foreach_add_", [[[6], [4]], [[6], [4]]], [[F32, F32]] * 2, None, 10, 3 * 40),
        ("_foreach_mul_", [[[6], [4]], []], [[F32, F32], "double"], None, 10, 2 * 40),
    ],
)  # fmt: skip
def test_by_hand(name, shapes, types, values, flops, moved):
    found = work(name, shapes, types, values)
    assert found is not None
    assert (found.flops, found.bytes) == (flops, moved)


@pytest.mark.parametrize(
    ("name", "shapes", "types", "values"),
    [
        ("mm", [[3, 4], [5, 4]], [F32, F32], None),
        ("mm", [[3, 4], [4, 5]], [F32, "ScalarList"], None),
        ("nothing", [[3]], [F32], None),
        ("miopen_convolution", [[1, 2, 8, 8], [8, 2, 3, 3], []], [F32, F32, ""], None),
        ("sum", [[6, 4], [], []], [F32, "ScalarList", "Scalar"], None),
        ("_convolution", [[1, 6, 4, 4], [6, 2, 3, 3], [2]], [F32] * 3,
         ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[1, 1]", "1"]),
        ("add", [[6], [5]], [F32, F32], None),
        # A causal mask that is not square has two meanings.
        ("_scaled_dot_product_flash_attention", [[1, 1, 5, 8], [1, 1, 9, 8], [1, 1, 9, 8]], [F16] * 3,
         ["", "", "", "0.", "True"]),
        ("_foreach_add_", [[], [], []], ["TensorList", "TensorList", "Scalar"], None),
    ],
)  # fmt: skip
def test_what_is_not_recorded_is_unknown(name, shapes, types, values):
    assert work(name, shapes, types, values) is None


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 2**40)
    | st.just(10**300)
    | st.sampled_from([F32, "", "x", "[1, 1]", "True", "[[", "nan"]),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=12,
)


@given(st.sampled_from(sorted(formulas._FORMULAS)), st.lists(st.lists(ANYTHING, max_size=11), min_size=3, max_size=3))
def test_any_text_gives_numbers_or_nothing(name, columns):
    found = work_of(name, *map(json.dumps, columns))
    assert found is None or (found.flops >= 0 and found.bytes >= 0)
    assert work_of(name, "[[", "{}", "") is None


def test_absurd_inputs_are_unknown():
    assert work("mm", [[10**200, 4], [4, 10**200]], [F32, F32]) is None
    assert work_of("aten::mean", "[[4, 4]]", '["float"]', json.dumps(["", "[" * 60_000])) is None
    assert work("mm", [[4, 4], [4, 4]], ["c10::complex<float>"] * 2) is None
    assert work("_scaled_mm", [[4, 4], [4, 4]], ["c10::Float4_e2m1fn_x2"] * 2) is None


H100 = "NVIDIA H100 80GB HBM3"


def product(builder, at, dur, size, types=(F16, F16), name="gemm"):
    """Adds ``aten::matmul`` > ``aten::mm`` of square matrices, with a kernel of ``dur`` microseconds."""
    builder.op("aten::matmul", at, 10)
    builder.op("aten::mm", at + 1, 8, shapes=[[size, size]] * 2, **{"Input type": [*types]})
    return builder.launches(kernel(name, dur, at + 10))


def roofline(builder, name=H100, **params):
    found = part(builder.device(0, name=name, computeMajor=9).table(), "roofline", **params)
    return found, {row["name"]: row for row in found.frames["roofline"].data.to_pylist()}


def test_rates_and_peaks_of_a_device():
    found, rows = roofline(product(trace(), 0, 2_000, 4096))
    row = rows["aten::mm"]
    flops, moved = 2 * 4096**3, 3 * 2 * 4096**2
    assert list(rows) == ["aten::mm"]  # the kernel counts once
    assert row["gflops"] == pytest.approx(flops / 1e9)
    assert row["moved_bytes"] == moved
    assert row["tflops_per_second"] == pytest.approx(flops / 2e-3 / 1e12)
    assert row["moved_bandwidth"] == pytest.approx(moved / 2e-3)
    assert row["peak_ratio"] == pytest.approx(flops / 989e12 / 2e-3)
    assert row["bound"] == "neither"  # 7 % of the peak
    assert roofline(product(trace(), 0, 200, 4096))[1]["aten::mm"]["bound"] == "compute"
    assert figures(found.payloads["summary"])["covered_ratio"] == 1


def test_limits_include_their_ridge_points():
    """A chart of small products alone shows how far they are from both limits, and has room for their titles."""
    found, rows = roofline(product(trace(), 0, 200, 64))
    (limit,) = found.payloads["chart"].limits
    ridge = 989e12 / 3.35e12
    assert rows["aten::mm"]["intensity"] < ridge / 10
    assert limit.x == pytest.approx([rows["aten::mm"]["intensity"] / 2, ridge, 2 * ridge])
    assert limit.y == pytest.approx([limit.x[0] * 3.35, 989, 989])
    # Large products alone: the ridge point is far from the left end.
    (limit,) = roofline(product(trace(), 0, 20_000, 16_384))[0].payloads["chart"].limits
    assert limit.x == pytest.approx([ridge / 20, ridge, 2 * 2 * 16_384 / 6])


def test_single_precision_is_compared_with_matrix_units_only_where_they_are_used():
    builder = product(trace(), 0, 3_000, 4096, (F32, F32), "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize")
    found, _ = roofline(product(builder, 4_000, 9_000, 2048, (F32, F32), "ampere_sgemm_128x64_nn"))
    assert found.frames["roofline"].data["peak_tflops_per_second"].to_pylist() == [67, 494]
    # Matrix cores of AMD do not round single precision.
    amd = product(trace(), 0, 3_000, 4096, (F32, F32), "Cijk_Ailk_Bljk_SB_MT128x128x16_MI32x32x1x1_SN")
    amd.device(0, name="AMD Instinct MI300X", gcnArchName="gfx942:sramecc+:xnack-", computeMajor=9, computeMinor=4)
    found = part(amd.table(), "roofline")
    assert found.frames["roofline"].data["peak_tflops_per_second"].to_pylist() == [163.4]


def test_only_the_outermost_call_counts_and_collectives_do_not():
    builder = trace().op("aten::add", 0, 20, shapes=[[1000], [1000]], **{"Input type": [F32, F32]})
    builder.op("aten::copy_", 1, 5, shapes=[[1000], [1000]], **{"Input type": [F32, F32]})
    builder.launches(kernel("copy", 3, 30)).op("aten::mul", 40, 5).launches(kernel("unknown", 7, 50))
    builder.op("c10d::allreduce_", 60, 5).launches(kernel("ncclDevKernel_AllReduce_Sum_f32", 90, 70))
    found, rows = roofline(builder)
    assert list(rows) == ["aten::add"]
    assert rows["aten::add"]["work_kernel_ns"] == 3_000
    assert rows["aten::add"]["bound"] == "short"
    assert figures(found.payloads["summary"])["covered_ratio"] == pytest.approx(0.3)


def test_above_the_peak_no_share_is_shown():
    found, rows = roofline(product(trace(), 0, 100, 4096))
    row = rows["aten::mm"]
    assert (row["peak_ratio"], row["bound"]) == (None, "above peak")
    assert row["tflops_per_second"] > 989
    assert figures(found.payloads["summary"])["peak_ratio"] is None
    assert [notice.rule for notice in found.payloads["notes"].notices] == ["above_peak"]


def test_an_unknown_device_has_rates_without_peaks(monkeypatch):
    found, rows = roofline(product(trace(), 0, 2_000, 4096), name="Future GPU")
    assert rows["aten::mm"]["tflops_per_second"] > 0
    assert (rows["aten::mm"]["peak_ratio"], rows["aten::mm"]["bound"]) == (None, None)
    assert [notice.rule for notice in found.payloads["notes"].notices] == ["no_peaks"]
    found, _ = roofline(product(trace(), 0, 2_000, 4096), name="")
    (notice,) = found.payloads["notes"].notices
    assert notice.rule == "no_device_name"
    monkeypatch.setenv("TORCH_TRACE_PEAKS", notice.todo.partition("to ")[2])
    assert roofline(product(trace(), 0, 2_000, 4096), name="")[1]["aten::mm"]["peak_ratio"] > 0


def test_an_unknown_peak_costs_its_own_call_only():
    builder = product(trace(), 0, 200, 4096)
    builder.op("aten::mm", 500, 8, shapes=[[64, 64]] * 2, **{"Input type": ["double", "double"]})
    builder.launches(kernel("dgemm", 5, 510))
    builder.op("aten::where", 600, 8, shapes=[[9], [9], [9]], **{"Input type": ["bool", F32, F32]})
    builder.launches(kernel("where", 5, 610))
    found = part(builder.device(0, name=H100, computeMajor=9).table(), "roofline")
    by_format = {(row["name"], row["number_format"]): row["peak_ratio"] for row in rows_of(found)}
    assert by_format["aten::mm", "fp64"] is None
    assert by_format["aten::where", "int8"] is not None
    assert figures(found.payloads["summary"])["peak_ratio"] == pytest.approx(2 * 4096**3 / 989e3 / 205_000, rel=1e-3)


def test_formats_are_rows_of_their_own():
    builder = product(product(trace(), 0, 200, 4096), 500, 900, 4096, (F32, F32), "sgemm")
    found = part(builder.device(0, name=H100, computeMajor=9).table(), "roofline")
    assert [(row["number_format"], row["peak_tflops_per_second"]) for row in rows_of(found)] == [
        ("fp32", 67),
        ("fp16/bf16", 989),
    ]


def rows_of(found):
    return found.frames["roofline"].data.to_pylist()


def test_what_is_missing_is_said():
    view = analysis_by_id("roofline")
    no_shapes = trace().device(0).op("aten::mm", 0, 5).launches(kernel()).table()
    assert "shapes" in view.missing(no_shapes).why
    assert "record_shapes=True" in view.missing(no_shapes).enable
    assert "kernels" in view.missing(trace().op("aten::mm", 0, 5, shapes=[[2, 2]]).table()).why


@needs_time
@pytest.mark.parametrize(
    ("path", "least"),
    [
        ("h100/Falconsai_nsfw_image_detection__1016002.json.gz", 0.99),
        ("h100/gaunernst_bert-small-uncased__1016001.json.gz", 0.98),
        ("mi300/resnet_act_checkpoint.json.gz", 0.7),
    ],
)
def test_recordings(path, least):
    if not SHARED.exists():
        pytest.skip("../shared is not here")
    found = part(model(SHARED / path), "roofline")
    shown = figures(found.payloads["summary"])
    assert least <= shown["covered_ratio"] <= 1
    rows = found.frames["roofline"].data.to_pylist()
    assert sum(row["work_kernel_ns"] for row in rows) == found.facts["roofline.kernel_ns"]
    assert all(row["peak_ratio"] is None or row["peak_ratio"] <= 1.05 for row in rows)
    assert "notes" not in found.payloads  # no row is above the peak


def answers(builder: TraceBuilder) -> dict[str, tuple[str, dict[str, object]]]:
    found = part(builder.device(0, name=H100, computeMajor=9).table(), "roofline").payloads.get("answer")
    notices = found.notices if found else ()
    return {each.rule: (each.text, {figure.metric.key: figure.value for figure in each.figures}) for each in notices}


def test_the_operator_that_loses_most_is_a_sum_over_its_shapes():
    builder = product(product(product(trace(), 0, 200, 4096), 500, 210, 4096), 1_000, 40, 1024)
    builder.op("aten::add", 2_000, 8, shapes=[[1 << 20]] * 2, **{"Input type": [F32] * 2})
    _, values = answers(builder.launches(kernel("add", 90, 2_010)))["roofline"]
    # The sum loses 86 us, more than each product.
    assert values == {
        "name": "aten::mm",
        "work_lost_ns": pytest.approx(450_000 - 2 * (2 * 4096**3 + 1024**3) / 989e3, abs=2),
        "work_kernel_ns": 450_000,
    }


def test_an_operator_at_the_peak_loses_no_time():
    """Up to 105 % of the peak, the kernel time is shorter than the time at the peak."""
    assert "roofline" not in answers(product(trace(), 0, 138, 4096))


def test_the_lost_time_is_that_of_devices_with_known_peaks():
    builder = product(trace(), 0, 200, 4096)
    builder.op("aten::mm", 500, 8, shapes=[[4096, 4096]] * 2, **{"Input type": [F16] * 2})
    builder.launches(kernel("gemm", 5_000, 510, device=1)).device(1, name="Future GPU")
    assert answers(builder)["roofline"][1]["work_lost_ns"] == round(200_000 - 2 * 4096**3 / 989e3)


def test_kernels_without_known_flops():
    builder = product(trace(), 0, 200, 4096)
    builder.op("custom::norm", 500, 8).launches(kernel("layer_norm", 100, 510))
    builder.op("custom::moe", 700, 8).launches(kernel("fused_moe_kernel", 700, 710))
    found = answers(builder)
    assert list(found) == ["limit_of_steps", "uncovered", "roofline"]
    assert found["uncovered"][1] == {"uncovered_ratio": 0.8, "uncovered_class": "MoE", "uncovered_class_ratio": 0.7}
    # One percent of the kernel time does not say which operator is the furthest from its peak.
    builder.op("custom::moe", 2_000, 8).launches(kernel("fused_moe_kernel", 19_000, 2_010))
    assert "roofline" not in answers(builder)


@pytest.mark.parametrize(
    ("dur", "ratios", "last"),
    [
        # A short kernel of a slow operator is not worth an optimization.
        (20, {"critical_other_ratio": 1.0, "critical_kernel_ratio": 0.0}, "hardly shorten the steps."),
        # The operator calls the launch after 905 us, and the step takes 1,305 us.
        (400, {"critical_other_ratio": 0.69, "critical_kernel_ratio": 0.31}, "is in kernels."),
        (5_000, None, ""),
    ],
)
def test_kernels_that_do_not_limit_the_steps(dur, ratios, last):
    builder = trace().step(0, 0, 1000)
    shapes, types = [[1024, 1024], [1024, 1024]], ["c10::BFloat16"] * 2
    builder.op("aten::mm", 0, 990, shapes=shapes, **{"Input type": types}).launches(kernel("g", dur), at=900, dur=5)
    text, values = answers(builder).get("limit_of_steps", ("", None))
    assert ratios == (values and {key: round(value, 2) for key, value in values.items()})
    assert text.endswith(last)
    assert not text or "{critical_other_ratio} of the critical path is on the CPU" in text


def test_time_that_nothing_explains_is_not_on_the_path():
    """Kernels of a trace without steps, 10 ms apart."""
    builder = trace()
    for i in range(5):
        product(builder, i * 10_000, 600, 4096)
    assert "limit_of_steps" not in answers(builder)


def test_communication_that_limits_the_steps():
    builder = product(trace().step(0, 0, 300), 0, 200, 4096)
    builder.op("c10d::allreduce_", 20, 5).launches(kernel("ncclDevKernel_AllReduce_Sum_f32", 790, 205))
    text, _ = answers(builder)["limit_of_steps"]
    assert "{critical_other_ratio} of the critical path is in communication" in text
