"""Products outside of matrix units, without TF32, or with odd dimensions: thresholds, and what mending saves."""

from __future__ import annotations

import pytest

from tb_plugin.devices.peaks import PEAKS, peak_of
from tests.builders import TraceBuilder, trace
from tests.rules.computing import FLOAT, HALF, Op, Program, said

SGEMM, TENSOR = "ampere_sgemm_128x64_nn", "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_nn"
SQUARE = [[1000, 1000], [1000, 1000]]
"""2e9 operations: 6.41 us of an A100 in 16 bit, 12.82 us in TF32, more than for its bytes."""


def a100(*ops: Op, name: str = "NVIDIA A100-SXM4-40GB") -> TraceBuilder:
    return Program(trace().device(0, name=name, computeMajor=8, computeMinor=0)).run(*ops).done()


def single(dur: float = 200, shapes: object = SQUARE) -> Op:
    return Op("aten::mm", dur, SGEMM, shapes, FLOAT)


def half(dur: float, columns: int = 1000, name: str = TENSOR) -> Op:
    return Op("aten::mm", dur, name, [[1000, 1000], [1000, columns]], HALF)


@pytest.mark.parametrize(
    ("op", "least", "most"),
    [
        (single(), 200 - 3 * 6.41026, 200 - 6.41026),
        (single(9), 0, 9 - 6.41026),
        (single(200, [[8192, 8], [8, 8192]]), 200 - 3 * 86.48223, 200 - 86.48223),
        (single(200, None), 100, 187.5),
        (Op("aten::cudnn_convolution", 200, "ampere_scudnn_128x64_relu", [[8, 3, 9, 9], [3, 3, 3, 3]]), 100, 187.5),
    ],
    ids=["by operations", "too short to be sure", "by bytes", "no shapes: twice to 16 times", "convolution"],
)
def test_what_matrix_units_save(op: Op, least: float, most: float) -> None:
    seen = said("matrix_units", a100(op))
    assert seen is not None and (seen.least, seen.most) == pytest.approx((max(least, 0), most), abs=2e-3)


def test_no_number_for_a_device_that_nobody_knows() -> None:
    seen = said("matrix_units", a100(single(), name="NVIDIA A999"))
    assert seen is not None and seen.least is None and seen.most is None


def test_fused_attention_alone_is_no_use_of_matrix_units() -> None:
    attention = Op("aten::_efficient_attention_forward", 50, "fmha_cutlassF_f32_aligned_64x64_rf_sm80")
    seen = said("matrix_units", a100(single(), attention))
    assert seen is not None and seen.text.endswith("no matmul or convolution uses them.")
    assert said("matrix_units", a100(single(), half(10))) is None


def test_tf32_is_off_where_others_use_matrix_units() -> None:
    seen = said("tf32_off", a100(single(), half(800)))
    assert seen is not None
    assert seen.text == (
        "TF32 is off: float32 matmuls and convolutions take 200 µs per step without Tensor Cores, 20.0 % of the kernel time."
    )
    assert (seen.least, seen.most) == pytest.approx((200 - 3 * 12.82051, 200 - 12.82051), abs=2e-3)
    assert said("tf32_off", a100(single())) is None, "matrix_units speaks"
    assert said("tf32_off", a100(Op("aten::mm", 200, SGEMM, SQUARE), half(800))) is None, "types are not known"
    v100 = trace().device(0, name="Tesla V100", computeMajor=7, computeMinor=0)
    assert said("tf32_off", Program(v100).run(single(), half(800)).done()) is None, "it has no TF32"


@pytest.mark.parametrize(("dur", "fires"), [(10, True), (9.9, False)])
def test_tf32_from_a_hundredth_of_the_kernel_time(dur: float, fires: bool) -> None:
    assert (said("tf32_off", a100(single(dur), half(1000 - dur))) is not None) is fires


def test_an_odd_dimension_makes_a_product_slow() -> None:
    """Aligned: 10 us for 2e9 operations. 1,001 columns are 2.002e9, 2.018e9 with as many as fill the next 8."""
    seen = said("matrix_alignment", a100(half(10), half(21, 1001)))
    assert seen is not None
    assert seen.text == (
        "16-bit matmuls take 21.0 µs per step in slow kernels, mostly aten::mm with [[1000, 1000], [1000, 1001]]: "
        "1,001 is not a multiple of 8."
    )
    assert seen.least == seen.most == pytest.approx(21 - 10.09, abs=2e-3)


@pytest.mark.parametrize(
    ("ops", "fires"),
    [
        ([half(10), half(20, 1001)], False),
        ([half(10), half(11, 1001, "cutlass_80_simt_sgemm_bf16_128x64_8x5_nn_align1")], True),
        ([half(10), half(21, 1008)], False),
        ([half(21, 1001)], False),
        ([half(3), half(9, 1001)], False),
        ([half(3000), half(29.9, 1001, "cutlass_80_simt_sgemm_bf16_128x64_8x5_nn_align1")], False),
    ],
    ids=["twice as long", "outside of matrix units", "aligned", "nothing to compare with", "too short", "too little"],
)
def test_odd_dimensions_that_cost_something(ops: list[Op], fires: bool) -> None:
    assert (said("matrix_alignment", a100(*ops)) is not None) is fires


def test_without_aligned_products_the_device_s_peak_bounds_the_saving() -> None:
    seen = said("matrix_alignment", a100(half(200, 1001, "cutlass_80_simt_sgemm_bf16_128x64_8x5_nn_align1")))
    assert seen is not None
    assert (seen.least, seen.most) == pytest.approx((200 - 3 * 6.41667, 200 - 6.41667), abs=2e-3)


def test_devices_are_known_by_their_names() -> None:
    named = {
        name: peak_of(name) for name in ("NVIDIA A100-SXM4-80GB", "Tesla V100-DGXS-32GB", "NVIDIA L40S", "NVIDIA A10")
    }
    assert [peak and (peak.fp16, peak.bandwidth) for peak in named.values()] == [
        (312, 2039),
        (125, 900),
        (362, 864),
        (125, 600),
    ]
    assert peak_of("AMD Radeon Graphics") is None and peak_of("NVIDIA A1000") is None
    for peak in PEAKS:
        assert peak.fp32 < peak.fp16 and (peak.tf32 is None or peak.fp32 <= peak.tf32 < peak.fp16), peak.pattern
