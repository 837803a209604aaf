"""Slow matmuls: tiles, waves, dimensions, and the matmuls of other rules."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.findings import finding
from tb_plugin.rules._base import Scene
from tb_plugin.rules.slow_matrix_products import RULE, slow_products
from tests.builders import TraceBuilder, part, trace
from tests.rules.computing import FLOAT, HALF, Op, Program, said

KERNEL = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
ALIGN2 = "cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2"
FULL = [[1408, 4096], [4096, 1536]]
"""11 x 12 tiles on 132 SMs: one full wave."""
WAVES = [[1536, 4096], [4096, 1536]]
"""12 x 12 tiles: two waves, of which 6/11 are used. 1.93e10 operations take 19.54 us of an H100."""
THIN = [[64, 4096], [4096, 16896]]
"""132 tiles on 132 SMs, each half empty. The bytes, 141 MB, take 42.1 us."""
SMALL = [[256, 4096], [4096, 1024]]
"""2 x 8 tiles. The bytes, 11 MB, take 3.29 us."""
ODD = [[1024, 4096], [4096, 12290]]
"""8 x 97 tiles: six waves, of which 97.8 % are used. 1.03e11 operations take 104.24 us."""


def h100(*ops: Op, sms: int | None = 132, name: str = "NVIDIA H100 80GB HBM3") -> TraceBuilder:
    more = {} if sms is None else {"numSms": sms}
    return Program(trace().device(0, name=name, computeMajor=9, computeMinor=0, **more)).run(*ops).done()


def mm(dur: float, shapes: object, kernel: str = KERNEL, dtype: str = HALF) -> Op:
    return Op("aten::mm", dur, kernel, shapes, dtype)


@pytest.mark.parametrize(
    ("op", "text", "least", "most"),
    [
        (
            mm(44, WAVES),
            "Matmuls take 44.0 µs per step at 44.4 % of the peak, mostly aten::mm with [[1536, 4096], [4096, 1536]]: "
            "its 144 tiles use 54.5 % of 132 SMs.",
            44 * 5 / 22,
            44 * 5 / 11,
        ),
        (
            mm(33, SMALL),
            "Matmuls take 33.0 µs per step at 10.0 % of the peak, mostly aten::mm with [[256, 4096], [4096, 1024]]: "
            "its 16 tiles use 12.1 % of 132 SMs.",
            (33 - 33 * 16 / 132) / 2,
            33 - 33 * 16 / 132,
        ),
        (
            mm(400, ODD, ALIGN2),
            "Matmuls take 400 µs per step at 26.1 % of the peak, mostly aten::mm with [[1024, 4096], [4096, 12290]]: "
            "12,290 is not a multiple of 8.",
            400 - 3 * 104.244,
            400 - 104.244,
        ),
        (mm(9, SMALL), None, 0, 9 - 3.287),
    ],
    ids=["waves", "few tiles", "dimension", "short kernels are not sure"],
)
def test_shapes_are_the_reason(op: Op, text: str | None, least: float, most: float) -> None:
    seen = said("slow_matrix_products", h100(op))
    assert seen is not None and text in (None, seen.text)
    assert (seen.least, seen.most) == pytest.approx((least, most), abs=5e-3)


def test_each_reason_has_its_advice() -> None:
    slow = (mm(44, WAVES), mm(33, SMALL), mm(400, ODD, ALIGN2), mm(100, THIN))
    found = [RULE.look(Scene(h100(op).table())) for op in slow]
    assert len({finding(each.notice).todo for each in found if each is not None}) == 4
    seen = said("slow_matrix_products", h100(mm(100, THIN)))
    assert seen is not None and seen.text.endswith("its 132 tiles use 50.0 % of 132 SMs.")


@pytest.mark.parametrize(
    "builder",
    [
        h100(mm(39, WAVES)),
        h100(mm(44, FULL)),
        h100(mm(44, WAVES, KERNEL.replace("tilesize", "streamK_tilesize"))),
        h100(mm(44, WAVES, "my_own_gemm")),
        h100(mm(44, WAVES), sms=None),
        h100(mm(44, WAVES), name="NVIDIA H999"),
        h100(mm(44, None)),
        h100(mm(300, ODD, ALIGN2)),
        h100(mm(400, ODD, ALIGN2.replace("align2", "align8"))),
        h100(mm(44, WAVES), mm(5000, FULL)),
        h100(mm(400, WAVES, "ampere_sgemm_128x128_tn", FLOAT)),
    ],
    ids=[
        "near the peak", "full waves", "stream-K", "tile unknown", "SMs unknown", "peaks unknown", "shapes unknown",
        "a third of the peak", "loads of 16 bytes", "below 1 %", "matrix_units speaks",
    ],
)  # fmt: skip
def test_nothing_to_say(builder: TraceBuilder) -> None:
    assert said("slow_matrix_products", builder) is None


@pytest.mark.parametrize("grid", [[2**40, 2**40, 2**40], [2] * 400, [], "x", [0, 1, 1], [-1, 1, 1]], ids=str)
def test_absurd_grids_are_unknown(grid: object) -> None:
    builder = h100(mm(44, WAVES), mm(30, [[-8, 4096], [4096, -8]]), mm(30, [[10**18, 8], [8, 10**18]]))
    for event in builder.events:
        if event.get("cat") == "kernel":
            event["args"]["grid"] = grid
    seen = said("slow_matrix_products", builder)
    assert seen is not None and "144 tiles" in seen.text


def test_the_overview_says_it_first() -> None:
    device = trace().device(0, name="NVIDIA H100", computeMajor=9, numSms=132)
    builder = Program(device, free=60).run(*[mm(44, WAVES)] * 20).done()
    payload: Any = part(builder.table(), "overview").payloads["largest_costs"]
    (notice,) = payload.notices
    assert "Other shapes of matmuls could save up to" in finding(notice).text


def test_blocks_that_split_the_depth_fill_more_multiprocessors() -> None:
    """16 tiles, each split among 8 blocks: 128 of 132 SMs."""
    builder = Program(trace().device(0, name="NVIDIA H100", computeMajor=9, numSms=132)).run(mm(33, SMALL)).done()
    for event in builder.events:
        if event.get("cat") == "kernel":
            event["args"]["grid"] = [2, 8, 8]
    assert said("slow_matrix_products", builder) is None


def test_tensile_names_contain_tiles() -> None:
    name = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x64_MI16x16x1_SN_LDSB1_SK0_WG64_4_1"
    amd = trace().device(0, name="AMD Instinct MI300X", gcnArchName="gfx942:sramecc+:xnack-", numSms=304)
    slow = slow_products(
        Scene(Program(amd).run(mm(90, WAVES, name), mm(90, WAVES, name.replace("SK0", "SK3"))).done().table())
    )
    assert slow.tiles.tolist() == [144]
    assert slow.fill.tolist() == pytest.approx([144 / 304])


def test_matmuls_of_other_findings_do_not_count_twice() -> None:
    """Aligned matmuls of the trace are faster: ``matrix_alignment`` says so. Attention has a rule, too."""
    builder = h100(mm(105, [[1024, 4096], [4096, 12288]], ALIGN2), mm(400, ODD, ALIGN2))
    assert said("matrix_alignment", builder) is not None
    assert said("slow_matrix_products", builder) is None
    heads = [[8, 256, 64], [8, 64, 256]]
    softmax = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 8, false, false>"
    attention = h100(
        Op("aten::bmm", 30, KERNEL, heads, HALF),
        Op("aten::_softmax", 10, softmax, [[8, 256, 256]], HALF),
        Op("aten::bmm", 30, KERNEL, [[8, 256, 256], [8, 256, 64]], HALF),
    )
    assert said("unfused_attention", attention) is not None
    assert said("slow_matrix_products", attention) is None
