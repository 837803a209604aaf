"""Runs of kernels that could be fused: which they are, what they save, and the sentence about them."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from tb_plugin.findings import finding
from tb_plugin.rules._base import Scene
from tb_plugin.rules._ordered_findings import Finding, findings_of
from tb_plugin.rules.unfused_kernels import MAX_KERNELS, fusible_runs
from tests.builders import TraceBuilder, Work, kernel, memcpy, memset, part, trace
from tests.rules.computing import ADD, Op, Program, said

GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_nn"
CAST = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>"
CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>"
MEAN = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>"
LINEAR = Op("aten::linear > aten::addmm", 100, GEMM)
ATTENTION = Op("aten::_flash_attention_forward", 50, "flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>")
CONVOLUTION = Op("aten::cudnn_convolution", 80, "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc")
ALL_REDUCE = Op("c10d::allreduce_", 60, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
UNKNOWN = Op("my::op", 30, "my_own_kernel")
RMS_NORM = [
    Op("aten::to > aten::_to_copy > aten::copy_", 5, CAST),
    Op("aten::pow", 4),
    Op("aten::mean", 6, MEAN),
    Op("aten::add", 1),
    Op("aten::rsqrt", 1),
    Op("aten::mul", 7),
    Op("aten::to > aten::_to_copy > aten::copy_", 5, CAST),
    Op("aten::mul", 4),
    Op("aten::clone > aten::copy_", 2, CAST),
]
ROTARY = [
    *[Op("aten::mul", 3), Op("aten::neg", 2), Op("aten::cat", 4, CAT), Op("aten::mul", 3), Op("aten::add", 3)] * 2
]
SWIGLU = [Op("aten::silu", 6), Op("aten::mul", 6)]
LAYER = [*RMS_NORM, LINEAR, *ROTARY, ATTENTION, LINEAR, *SWIGLU, LINEAR]


def block(count: int = 1) -> TraceBuilder:
    """Layers of an LLM: 35 us of norms, 30 of rotary embeddings, 12 of SwiGLU, 300 of products and 50 of attention."""
    return Program().run(*LAYER * count).done()


def found_in(builder: TraceBuilder) -> Finding:
    (only,) = [each for each in findings_of(builder.table(), None).all if each.rule.id == "unfused_kernels"]
    return only


def lengths(builder: TraceBuilder) -> list[int]:
    of = fusible_runs(Scene(builder.table())).of.tolist()
    return [of.count(run) for run in range(max(of, default=-1) + 1)]


def test_the_layers_of_an_llm() -> None:
    """65 of 427 us lie in runs of 9 and 10 kernels; the longest take 7 and 4. A SwiGLU is a pair."""
    seen = said("unfused_kernels", block())
    assert seen is not None and (seen.least, seen.most) == (0, 65 - 11)
    assert seen.text == (
        "Per step, 19 small kernels (elementwise and copy) run between matmuls and attention. They take 65.0 µs, 15.2 % "
        "of the kernel time, in 2 sequences. If each sequence took as long as its longest kernel, the total would be 11.0 µs."
    )


def test_equal_runs_share_a_row() -> None:
    table = found_in(block(3)).table
    assert table is not None and table.name in part(block(3).table(), "findings").frames
    rows = [{key: value for key, value in row.items() if key != "fusible_run"} for row in table.data.to_pylist()]
    assert rows == [
        {"run_count": 3, "run_length": length, "run_ns": 3000 * ns, "run_fused_ns": 3000 * fused, "run_saved_ns": saved}
        for length, ns, fused, saved in ((9, 35, 7, 84_000), (10, 30, 4, 78_000))
    ]
    assert table.data["fusible_run"][1].as_py().split(" → ")[:3] == [ADD, ADD, CAT]


def test_the_first_sentence_says_what_fusing_saves() -> None:
    """Four layers of 427 us, of each 54 can go; the host is done after 200 us."""
    builder = Program(trace().device(0), free=200).run(*LAYER * 4).done()
    table = builder.table()
    payload: Any = part(table, "overview").payloads["largest_costs"]
    (notice,) = payload.notices
    saving = found_in(builder).notice.saving
    assert saving is not None and saving.high_ns == pytest.approx(4 * 54_000 * 1.03) and saving.low_ns == 0
    text = finding(notice).text
    assert text.startswith(
        "GPU-bound. Kernel time: 70 % GEMM, 17 % elementwise and copy, 12 % attention. Fusing elementwise"
    )
    assert text.endswith("kernels could save up to 222 µs of the 1.91 ms step.")


THREE = [Op("aten::mul", 10), Op("aten::to > aten::copy_", 10, CAST), Op("aten::layer_norm", 10, NORM)]


@pytest.mark.parametrize("between", [LINEAR, ATTENTION, CONVOLUTION, ALL_REDUCE, UNKNOWN], ids=lambda op: op.names)
def test_other_kernels_end_a_run(between: Op) -> None:
    assert lengths(Program().run(LINEAR, *THREE, *THREE, LINEAR).done()) == [6]
    assert lengths(Program().run(LINEAR, *THREE, between, *THREE, LINEAR).done()) == [3, 3]
    assert lengths(Program().run(LINEAR, *THREE[:2], between, *THREE[:2], LINEAR).done()) == []


def launched(*work: Work, tids: tuple[int, ...] = ()) -> TraceBuilder:
    """Each work launched by an operator of its own, all in one step, 10 us after another from 10 ms on."""
    builder = trace().step(1, 0, 10 * len(work) + 100)
    for i, each in enumerate(work):
        tid = tids[i] if tids else 1
        builder.op("my::op", 10 * i + 1, 5, tid=tid)
        builder.launches(Work(each.category, each.name, 10, 10_000 + 10 * i, stream=each.stream), dur=1)
    return builder


SMALL = [kernel(ADD), kernel(CAST), kernel(MEAN)]


@pytest.mark.parametrize(
    ("between", "wanted"),
    [
        (memcpy(name="Memcpy DtoD (Device -> Device)"), [6]),
        (memset(), [6]),
        (memcpy(name="Memcpy DtoH (Device -> Pinned)"), [3, 3]),
        (memcpy(name="Memcpy HtoD (Pinned -> Device)"), [3, 3]),
        (kernel(GEMM, stream=8), [6]),
        (kernel("void at::native::radixSortKVInPlace<...>"), [3, 3]),
        (kernel("triton_poi_fused_add_0"), [3, 3]),
    ],
    ids=["within the device", "set", "to the host", "from the host", "other stream", "sort", "compiled"],
)
def test_what_stands_in_a_run(between: Work, wanted: list[int]) -> None:
    assert lengths(launched(*SMALL, between, *SMALL)) == wanted


def test_streams_threads_and_steps_have_runs_of_their_own() -> None:
    other = [kernel(each.name, stream=8) for each in SMALL]
    mixed = [each for pair in zip(SMALL, other, strict=True) for each in pair]
    assert lengths(launched(*mixed)) == [3, 3]
    assert lengths(launched(*SMALL, *SMALL, tids=(1, 1, 1, 2, 2, 2))) == [3, 3]
    assert lengths(launched(*SMALL, *SMALL[:2], tids=(1, 1, 1, 2, 2))) == [3]
    two = launched(*SMALL, *SMALL)
    two.events[0]["dur"] = 30
    assert lengths(two.step(2, 30, 35)) == [3, 3]


def test_kernels_of_one_operator_are_no_run() -> None:
    """A backward norm has two kernels: it and a sum are two operators. What stands beside a product belongs to it."""
    builder = launched(SMALL[0]).op("aten::native_layer_norm_backward", 21, 5)
    builder.launches(kernel(NORM, 10, 10_010), at=22, dur=0.5).launches(kernel(NORM, 10, 10_020), at=23, dur=0.5)
    assert lengths(builder) == []
    assert lengths(builder.op("aten::add", 31, 5).launches(kernel(ADD, 10, 10_030))) == [4]
    product = launched(*SMALL[:2]).op("aten::addmm", 31, 5)
    product.launches(kernel(MEAN, 10, 10_020), at=32, dur=0.5).launches(kernel(GEMM, 10, 10_030), at=33, dur=0.5)
    assert lengths(product) == []


def test_without_operators_each_kernel_counts() -> None:
    builder = trace()
    for i, name in enumerate([ADD, CAST, MEAN, GEMM, ADD, ADD]):
        builder.on_device(kernel(name, 10, 10 * i))
    assert lengths(builder) == [3]


def test_long_runs_are_as_many_kernels_as_a_compiler_fuses() -> None:
    assert lengths(launched(*[SMALL[0]] * 130)) == [MAX_KERNELS, MAX_KERNELS]
    assert lengths(launched(*[SMALL[0]] * 131)) == [MAX_KERNELS, MAX_KERNELS, 3]


def test_only_launches_that_limit_are_saved_for_sure() -> None:
    """Launches every 10 us of kernels of 1 us: two calls of 1 us go, with the time around them at best."""
    builder = trace().device(0).step(1, 0, 100)
    for i, name in enumerate([ADD, ADD, ADD, GEMM] * 2):
        builder.op("aten::mul", 10 * i, 10).launches(kernel(name, 1, 10 * i + 2), dur=1)
    saving = found_in(builder).notice.saving
    assert saving is not None and 0 < saving.low_ns <= 4_000 < saving.high_ns


def test_a_launch_that_loads_code_is_not_saved() -> None:
    """The second launch takes 50 ms, as the first of a fused kernel would."""
    builder = trace().device(0).step(1, 0, 50_100)
    for i, name in enumerate([ADD, ADD, ADD, ADD, ADD, ADD]):
        late = 50_000 if i > 1 else 0
        builder.op("aten::mul", 10 * i + late, 8 + 50_000 * (i == 1))
        dur = 50_003 if i == 1 else 2
        builder.launches(kernel(name, 20, 10 * i + late + dur + 3 + 20 * i), at=10 * i + late + 1, dur=dur)
    assert "unfused_kernels" not in {each.rule.id for each in findings_of(builder.table(), None).all}, "0.1 of 50 ms"


@pytest.mark.parametrize("seed", range(30))
def test_against_a_plain_loop(seed: int) -> None:
    draw = random.Random(seed)
    names = [ADD, ADD, CAST, MEAN, NORM, GEMM, "my_own_kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"]
    work = [kernel(draw.choice(names), stream=draw.choice([7, 7, 8])) for _ in range(draw.randrange(80))]
    copies = [memcpy(name="Memcpy DtoD (Device -> Device)"), memcpy(name="Memcpy DtoH (Device -> Pinned)"), memset()]
    work = [draw.choice(copies) if draw.random() < 0.1 else each for each in work]
    wanted = []
    for stream in (7, 8):
        run: list[str] = []
        for each in [*(each for each in work if each.stream == stream), kernel(GEMM)]:
            if each.name in ("Memset (Device)", "Memcpy DtoD (Device -> Device)"):
                continue
            if each.name in (ADD, CAST, MEAN, NORM):
                run.append(each.name)
                continue
            wanted += [run] if len(run) >= 3 else []
            run = []
    table = launched(*work).table()
    found = fusible_runs(Scene(table))
    got: dict[int, list[str]] = {}
    for row, run_number in zip(found.row.tolist(), found.of.tolist(), strict=True):
        got.setdefault(run_number, []).append(str(table.strings[int(table.name[row])]))
    assert sorted(got.values()) == sorted(wanted)
    assert all(a <= b for a, b in pairwise(found.of.tolist()))
