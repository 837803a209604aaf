"""Kernels that a fused one would replace: attention, updates of parameters, elementwise chains; casts and copies."""

from __future__ import annotations

import pytest

from tb_plugin.analysis.kernel_classes import CONVOLUTION_LAYOUTS
from tb_plugin.devices.kernel_classes import built_in_rules
from tb_plugin.model.trace.schema import KernelClass
from tb_plugin.payloads import Notice
from tb_plugin.rules._ordered_findings import findings_of
from tests.builders import TraceBuilder, kernel, trace
from tests.rules.computing import ADD, FLOAT, HALF, Op, Program, said

GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_nn"
COPY = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>"
QUERIES, KEYS, SCORES = [[8, 64, 32]], [[8, 32, 64]], [[8, 64, 64]]
BEFORE, AFTER = Op("aten::bmm", 40, GEMM, QUERIES + KEYS, HALF), Op("aten::bmm", 50, GEMM, SCORES + QUERIES, HALF)
SOFTMAX = Op("aten::softmax > aten::_softmax", 30, "cunn_SoftMaxForward<8>", SCORES, HALF)
SCALE = Op("aten::div", 20, ADD, SCORES, HALF)
LINEAR = Op("aten::linear > aten::addmm", 100, GEMM)


def step(*ops: Op, builder: TraceBuilder | None = None) -> TraceBuilder:
    return Program(builder or trace()).run(*ops).done()


def test_attention_in_pieces() -> None:
    seen = said("unfused_attention", step(LINEAR, BEFORE, SCALE, SOFTMAX, AFTER, LINEAR))
    assert seen is not None and (seen.least, seen.most) == (50, 50), "what products need is not known of this GPU"
    assert seen.text == (
        "Attention is not fused: kernels between its two matmuls take 50.0 µs per step, 14.7 % of the kernel time."
    )


def test_products_around_a_softmax_need_at_least_their_operations() -> None:
    """Each 2 x 8 x 64 x 64 x 32 operations: 6.72 ns of an A100; four times that stays for a fused kernel."""
    builder = trace().device(0, name="NVIDIA A100", computeMajor=8, computeMinor=0)
    seen = said("unfused_attention", step(BEFORE, SCALE, SOFTMAX, AFTER, builder=builder))
    assert seen is not None and (seen.least, seen.most) == pytest.approx(
        (140 - 8 * 0.00672, 140 - 2 * 0.00672), abs=2e-3
    )


@pytest.mark.parametrize(
    "ops",
    [
        [BEFORE, SCALE, SOFTMAX, LINEAR, AFTER],
        [LINEAR, SOFTMAX, LINEAR],
        [BEFORE, SCALE, Op("aten::_log_softmax", 30, "cunn_SoftMaxForward<8>", SCORES), AFTER],
        [BEFORE, Op("aten::_softmax", 30, "cunn_SoftMaxForward<8>", [[8, 9, 9]]), AFTER],
        [BEFORE, *[SCALE] * 8, SOFTMAX, AFTER],
        [SOFTMAX, AFTER],
        [BEFORE, SOFTMAX],
        [BEFORE, Op("aten::_softmax", 1, "cunn_SoftMaxForward<8>", SCORES), AFTER, LINEAR],
    ],
    ids=[
        "product between",
        "no batched product",
        "logarithm",
        "other shape",
        "too much between",
        "first",
        "last",
        "too little",
    ],
)
def test_softmax_that_is_no_attention(ops: list[Op]) -> None:
    assert said("unfused_attention", step(*ops)) is None


def updating(
    parameters: int, *durations: float, name: str = ADD, range_name: str = "Optimizer.step#SGD.step"
) -> TraceBuilder:
    program = Program().run(LINEAR)
    begin = program.now
    names = ["aten::mul_", "aten::add_", "aten::add_"]
    for _ in range(parameters):
        program.run(*(Op(each, dur, name) for each, dur in zip(names, durations, strict=False)))
    program.builder.annotation(range_name, begin - 0.5, program.now - begin)
    return program.done()


def test_parameters_that_are_updated_one_by_one() -> None:
    """Kernels of 4, 6 and 10: of each series at best 4 + 6 and the least of all, 4, go; at least 20 - 2 x (10 - 4)."""
    seen = said("unfused_optimizer", updating(50, 4, 6, 10))
    assert seen is not None and (seen.least, seen.most) == (50 * 8, 50 * 14)
    assert seen.text == ("The optimizer is not fused: 150 kernels per step take 1.00 ms and cost 300 µs of CPU time.")


@pytest.mark.parametrize(
    ("builder", "fires"),
    [
        (updating(34, 4, 6, 10), True),
        (updating(33, 4, 6, 10), False),
        (updating(80, 4, 6), False),
        (updating(50, 4, 6, 10, name="multi_tensor_apply_kernel<Adam>"), False),
        (updating(50, 4, 6, 10, range_name="Optimizer.zero_grad#SGD.zero_grad"), False),
    ],
    ids=["102 kernels", "99 kernels", "two for each", "many tensors at once", "gradients are cleared"],
)
def test_updates_from_a_hundred_kernels_on(builder: TraceBuilder, fires: bool) -> None:
    assert (said("unfused_optimizer", builder) is not None) is fires


def point(dur: float, numbers: int = 64, name: str = "aten::mul", made: str = ADD) -> Op:
    return Op(name, dur, made, [[numbers, numbers], []])


def test_a_chain_of_elementwise_kernels() -> None:
    """One input and one result each: the longest stays, and half of the others, which write or read for a neighbour."""
    seen = said("unfused_kernels", step(LINEAR, point(10), point(14), point(12), LINEAR))
    assert seen is not None and (seen.least, seen.most) == (5 + 6, 10 + 12)
    assert seen.text == (
        "Per step, 3 kernels (elementwise) run between matmuls and attention. They take 36.0 µs, 15.3 % of the "
        "kernel time, in 1 sequence. If each sequence took as long as its longest kernel, the total would be 14.0 µs."
    )


@pytest.mark.parametrize(
    "ops",
    [
        [point(10), point(10), LINEAR, point(10)],
        [point(10, name="triton_poi_fused_0", made="triton_poi_fused_0")] * 3,
        [point(1), point(1), point(1), LINEAR, LINEAR, LINEAR, LINEAR],
    ],
    ids=["two", "generated", "too little"],
)
def test_elementwise_kernels_that_are_no_chain(ops: list[Op]) -> None:
    assert said("unfused_kernels", step(LINEAR, *ops)) is None


@pytest.mark.parametrize(
    "ops", [[point(10), point(10), point(10, 32)], [Op("aten::mul", 10)] * 3], ids=["other numbers", "no shapes"]
)
def test_kernels_of_which_only_launches_surely_go(ops: list[Op]) -> None:
    """What one kernel writes for the next is known where shapes are recorded and equal."""
    seen = said("unfused_kernels", step(LINEAR, *ops))
    assert seen is not None and (seen.least, seen.most) == (0, 20)


NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>"
H100 = {"name": "NVIDIA H100 80GB HBM3", "computeMajor": 9}


def passing(norm: float = 40, numbers: int = 4096) -> TraceBuilder:
    """A cast, a norm and a product with numbers: two tensors of 64 MiB (at 3.35 TB/s, each takes 20.03 us)."""
    square = [[4096, numbers]]
    ops = [
        Op("aten::copy_", 60, COPY, square * 2, FLOAT),
        Op("aten::native_layer_norm", norm, NORM, square, FLOAT),
        Op("aten::mul", 50, ADD, [*square, []], FLOAT),
    ]
    return Program(trace().device(0, **H100)).run(LINEAR, *ops, LINEAR).done()


def test_kernels_pass_tensors_to_each_other() -> None:
    """All but the cast read 64 MiB of the kernel before (half of the norm); the kernels move 384 MiB in 150 us."""
    seen = said("unfused_kernels", passing())
    assert seen is not None and (seen.least, seen.most) == pytest.approx((20 + 20.03, 40 + 50), abs=0.01)
    assert "They reach 80.1 % of the memory bandwidth, and pass 128 MiB to each other." in seen.text


def test_a_tensor_in_a_cache_takes_a_part_of_the_kernel() -> None:
    """The norm takes 20 us for 128 MiB: half of it reads what the cast wrote."""
    seen = said("unfused_kernels", passing(20))
    assert seen is not None and seen.least == pytest.approx(10 + 20.03, abs=0.01)


def test_other_sizes_are_not_passed_on() -> None:
    builder = passing()
    for event in builder.events:
        if event["name"] == "aten::native_layer_norm":
            event["args"]["Input Dims"] = [[4096, 4095]]
    seen = said("unfused_kernels", builder)
    assert seen is not None and seen.least == 0
    assert "pass" not in seen.text


def test_updates_of_parameters_are_another_rule_s_chains() -> None:
    program = Program().run(LINEAR)
    begin = program.now
    program.run(*[point(10)] * 4).builder.annotation("Optimizer.step#SGD.step", begin - 0.5, program.now - begin)
    assert said("unfused_kernels", program.done()) is None


def cast(dur: float = 10, numbers: int = 64, kind: str = FLOAT) -> Op:
    return Op("aten::to > aten::_to_copy > aten::copy_", dur, COPY, [[numbers]], kind)


def calls(*each: list[Op]) -> TraceBuilder:
    """Each list of operators is a call of a module."""
    program = Program().run(LINEAR)
    for number, ops in enumerate(each):
        begin = program.now - 0.4
        program.run(*ops).builder.module("Block", begin, program.now - begin, number, id=2 * number + 1)
        program.builder.python(
            "model.py(5): forward", begin + 0.1, program.now - begin - 0.2, 2 * number + 2, 2 * number + 1
        )
        program.run(LINEAR)
    return program.done()


def test_a_line_that_casts_again_and_again() -> None:
    """Four casts of 10 in each of two calls: all but the first of a call surely go, all but the first of the step at best."""
    seen = said("redundant_casts", calls([cast()] * 4, [cast()] * 4))
    assert seen is not None and (seen.least, seen.most) == (60, 70)
    assert seen.text == ("7 kernels per step repeat an earlier cast and take 70.0 µs, mostly at model.py(5): forward.")


@pytest.mark.parametrize(
    "builder",
    [
        calls([cast()] * 3, [cast()] * 3),
        calls([cast(), cast(), cast(numbers=32), cast(numbers=32)]),
        calls([cast(0.5)] * 4),
        step(LINEAR, *[cast()] * 8),
        calls([Op("aten::contiguous > aten::copy_", 10, COPY, [[64]], FLOAT)] * 4),
    ],
    ids=["three are queries, keys, values", "two shapes", "too little", "no module", "no cast"],
)
def test_casts_that_may_be_of_other_tensors(builder: TraceBuilder) -> None:
    assert said("redundant_casts", builder) is None


def test_a_cast_there_and_back() -> None:
    seen = said("redundant_casts", step(LINEAR, cast(), cast(12, kind=HALF), LINEAR, cast(14)))
    assert seen is not None and (seen.least, seen.most) == (22, 22)
    assert said("redundant_casts", step(LINEAR, cast(), LINEAR, cast(12, kind=HALF))) is None


def autocast(batch: int) -> list[Op]:
    """A linear layer: its input and its weight are cast."""
    of_input, of_weight = (
        Op("aten::linear > aten::to > aten::_to_copy > aten::copy_", dur, COPY, [size], FLOAT)
        for dur, size in ((4, [batch, 64]), (10, [32, 64]))
    )
    return [of_input, of_weight]


@pytest.mark.parametrize(("batch", "same", "saved"), [(8, True, 10), (8, False, None), (32, True, None)])
def test_a_module_s_weight_is_cast_in_each_pass(batch: int, same: bool, saved: float | None) -> None:
    """Two passes through one layer, through two, and with inputs that look like the weight."""
    builder = calls(autocast(batch), autocast(batch))
    for event in builder.events:
        if event["name"] == "aten::linear" and "Input Dims" in event["args"]:
            event["args"]["Input Dims"] = [[batch, 64], [32, 64], [32]]
        if same and event["name"] == "nn.Module: Block_1":
            event["name"], event["args"]["Python module id"] = "nn.Module: Block_0", 0
    seen = said("redundant_casts", builder)
    assert (seen and seen.least, seen and seen.most) == (saved, saved)


def laid(dur: float, names: str = "aten::contiguous > aten::clone > aten::copy_") -> Op:
    return Op(names, dur, COPY, [[64]])


@pytest.mark.parametrize(
    ("ops", "saved"),
    [
        ([laid(20), Op("aten::mm", 980, GEMM)], 20),
        ([laid(19.9), Op("aten::mm", 980.1, GEMM)], None),
        ([laid(30, "aten::reshape > aten::clone > aten::copy_"), Op("aten::mm", 970, GEMM)], 30),
        ([laid(30, "aten::clone > aten::copy_"), Op("aten::mm", 970, GEMM)], None),
        ([Op("aten::contiguous > aten::mul", 30), Op("aten::mm", 970, GEMM)], None),
    ],
    ids=["at the threshold", "below it", "reshape", "a copy that was asked for", "computes"],
)
def test_copies_into_another_layout(ops: list[Op], saved: float | None) -> None:
    seen = said("redundant_copies", step(*ops))
    assert (seen and seen.least, seen and seen.most) == (saved, saved)


def test_convolutions_that_turn_their_inputs() -> None:
    turning = Op("aten::cudnn_convolution", 30, "nchwToNhwcKernel<float>")
    assert said("redundant_copies", step(turning)) is None, "no convolution is seen"
    program = Program().run(
        Op("aten::cudnn_convolution", 70, "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc")
    )
    program.builder.launches(kernel("nchwToNhwcKernel<float>", 30, program.free), dur=0.5)
    seen = said("redundant_copies", program.done())
    assert seen is not None and (seen.least, seen.most) == (30, 30)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("batched_transpose_16x64_pack_1x4_ediv_1x2_half", "PYTORCH_MIOPEN_SUGGEST_NHWC=1"),
        ("void cudnn::ops::nchwToNhwcKernel<float, float>(P)", "cudnn.benchmark"),
        ("transpose_kernel", None),
    ],
)
def test_convolutions_without_operators_are_judged_by_names(name: str, advice: str | None) -> None:

    def found_beside(work: str) -> dict[str, Notice]:
        builder = trace().call(0, 1, corr=1).on_device(kernel(name, 15, 2), corr=1)
        builder.call(1, 1, corr=2).on_device(kernel(work, 85, 17), corr=2)
        return {each.rule.id: each.notice for each in findings_of(builder.table(), None).all}

    found = found_beside("igemm_fwd_gtcx2_nhwc_bf16_bx0")
    assert ("redundant_copies" in found) == (advice is not None)
    if advice:
        assert advice in found["redundant_copies"].todo
        assert found["redundant_copies"].text == (
            "Convolutions copy their tensors into another layout. These copies take {layout_ns}, {layout_ratio} of the "
            "kernel time."
        )
    assert "redundant_copies" not in found_beside(GEMM)


def test_layouts_of_convolutions_are_a_line_of_the_table_of_classes() -> None:
    assert CONVOLUTION_LAYOUTS in {rule.regex for rule in built_in_rules() if rule.kernel_class == KernelClass.COPY}


def test_a_sure_saving_comes_before_a_larger_bound() -> None:
    """Layout copies save 55 us for sure; a chain of three kernels of 30 us saves at best 60, but surely only launches."""
    layout = "batched_transpose_16x64_pack_1x4_ediv_1x2_half"
    builder, free = trace(), 2
    for i, (name, dur) in enumerate([("igemm_fwd_gtcx2", 400), (layout, 55), *[(ADD, 30)] * 3, (GEMM, 100)]):
        builder.call(i, 1, corr=i).on_device(kernel(name, dur, free), corr=i)
        free += dur
    first, second, *_ = findings_of(builder.table(), None).all
    assert (first.rule.id, second.rule.id) == ("redundant_copies", "unfused_kernels")
    assert first.time_ns < second.time_ns and first.expected_ns > second.expected_ns
