"""Copies to a device and within it: which rule each belongs to, and what the fix saves."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tb_plugin.rules._ordered_findings import findings_of
from tests.builders import TraceBuilder, kernel, memcpy, trace
from tests.rules.computing import said
from tests.rules.test_host_waits import found, saving, text, whole

MIB = 1 << 20
PAGEABLE = "Memcpy HtoD (Pageable -> GPU)"
PINNED = "Memcpy HtoD (Pinned -> GPU)"


def copied(
    builder: TraceBuilder, at: int, dur: int, name: str = PAGEABLE, begin: int | None = None, blocks: bool = True,
    shapes: object = None, size: int = MIB, stream: int = 7,
) -> TraceBuilder:  # fmt: skip
    """``.to(device)``: a copy that begins 10 us after its call, or then; the host waits for it in two calls."""
    begin = at + 10 if begin is None else begin
    end = begin + dur if blocks else at + 10
    builder.op("aten::to", at - 2, end + 14 - at).op("aten::copy_", at - 1, end + 12 - at, shapes=shapes)
    work = memcpy(dur, begin, name, bytes=size, stream=stream)
    builder.launches(work, at=at, dur=end - 5 - at, name="cudaMemcpyAsync")
    return builder.call(end - 5, 10, name="cudaStreamSynchronize") if blocks else builder


def pageable(dur: int = 200) -> TraceBuilder:
    """A step of 1 ms: a copy [20, 220), a kernel that is launched 90 us later and runs for 600 us."""
    builder = trace().step(1, 0, 1000).python("train.py(9): load", 1, 400)
    copied(builder, 10, dur)
    return builder.op("aten::mm", 300, 15).launches(kernel("mm", 600), at=300, dur=10)


def test_a_copy_from_pageable_memory_holds_the_host_up() -> None:
    """The host waits in [10, 225) and is in ``aten::to`` until 232 while the device idles: the step ends as much earlier."""
    each = found(pageable())
    assert each.keys() == {"pageable_copies"}
    assert saving(each["pageable_copies"]) == (215, whole(215))
    assert text(each["pageable_copies"]) == (
        "Per step, the CPU is blocked for 215 µs in copies to the GPU from pageable memory, 1.00 MiB at 5.24 GB/s, "
        "mostly at train.py(9): load."
    )


def test_a_copy_that_nothing_waits_for_is_overlapped_in_part_at_least() -> None:
    """The host is far ahead: the stream runs without a gap, and is shorter by the copy's 200 us, or by 150."""
    builder = trace().step(1, 0, 500).op("aten::mm", 0, 5).launches(kernel("a", 390), at=0, dur=5)
    copied(builder, 10, 200, PINNED, begin=395, blocks=False)
    builder.op("aten::mm", 100, 15).launches(kernel("b", 400, 595), at=100, dur=10)
    each = found(builder)
    assert each.keys() == {"exposed_copies"}
    assert saving(each["exposed_copies"]) == (150, whole(200))
    assert "run for 200 µs on the compute stream while nothing else runs" in text(each["exposed_copies"])


def test_no_more_of_a_copy_is_hidden_than_there_is_other_work() -> None:
    """700 us of copy, 100 us of kernel: 100 us are hidden at best, three quarters of them at least."""
    builder = trace().step(1, 0, 200).op("aten::mm", 0, 5).launches(kernel("a", 50), at=0, dur=5)
    copied(builder, 10, 700, PINNED, begin=55, blocks=False)
    builder.op("aten::mm", 40, 15).launches(kernel("b", 50, 755), at=40, dur=10)
    assert saving(found(builder)["exposed_copies"]) == (75, whole(100))


def test_a_copy_on_a_stream_of_its_own_is_fine() -> None:
    builder = trace().step(1, 0, 500).op("aten::mm", 0, 5).launches(kernel("a", 390), at=0, dur=5)
    copied(builder, 10, 200, PINNED, begin=395, blocks=False, stream=20)
    builder.op("aten::mm", 100, 15).launches(kernel("b", 400, 595), at=100, dur=10)
    assert not found(builder)


def repeating(shapes: tuple[object, ...] = ([[8]], [[8]], [[8]]), between: str = "", line: bool = True) -> TraceBuilder:
    """A step of 1 ms in which one line copies three times, 124 us each, a kernel after each; then the backward pass."""
    builder = trace().step(1, 0, 1000)
    if line:
        builder.python("model.py(5): bias", 1, 800)
    for i, shape in enumerate(shapes):
        at = 10 + 250 * i
        copied(builder, at, 100, shapes=shape)
        builder.op("aten::mm", at + 130, 15).launches(kernel("mm", 90), at=at + 130, dur=10)
        if between:
            builder.annotation(between, at + 150, 5)
    return builder.op("autograd::engine::evaluate_function: MmBackward0", 900, 50)


@pytest.mark.parametrize("make", [pageable, lambda: repeating()])
def test_the_order_of_the_file_says_nothing(make: Callable[[], TraceBuilder]) -> None:
    builder = make()
    (first,) = found(builder).values()
    random.Random(1).shuffle(builder.events)
    (again,) = found(builder).values()
    assert (saving(first), text(first), first.events.tolist()) == (saving(again), text(again), again.events.tolist())


def test_a_line_that_copies_once_in_some_step_copies_something_new() -> None:
    builder = repeating().step(2, 1000, 1000).python("model.py(5): bias", 1001, 800)
    copied(builder, 1010, 100, shapes=[[8]]).op("aten::mm", 1300, 600)
    for i in range(5):  # a last step with fewer would count as cut off
        builder.launches(kernel("mm", 90), at=1300 + 100 * i, dur=10)
    assert found(builder).keys() == {"pageable_copies"}


def test_one_line_that_copies_again_and_again() -> None:
    each = found(repeating())
    assert each.keys() == {"repeated_copies"}
    assert saving(each["repeated_copies"]) == (2 * 124 + 115, whole(3 * 124)), "of the first its two calls go"
    assert text(each["repeated_copies"]) == (
        "model.py(5): bias seems to copy the same data to the GPU 3 times per step, 3.00 MiB in all. "
        "These copies take 372 µs on the CPU."
    )


@pytest.mark.parametrize(
    "builder",
    [
        repeating(shapes=([[8]], [[9]], [[8]])),
        repeating(between="enumerate(DataLoader)#_X.__next__"),
        repeating(between="MulBackward0"),
        repeating(line=False),
    ],
    ids=["several shapes", "a batch between", "a backward pass between", "no line is known"],
)
def test_copies_that_may_be_of_other_tensors_are_not_repeated(builder: TraceBuilder) -> None:
    assert found(builder).keys() == {"pageable_copies"}


WITHIN, TO = "Memcpy DtoD (Device -> GPU)", "Memcpy HtoD (Pinned -> GPU)"


def step(*copies: tuple[str, float], name: str = WITHIN, host: float = 1000) -> TraceBuilder:
    """A step of 1,000 us of which a product takes 500; copies by operators follow it."""
    builder = trace().device(0).step(1, 0, host).op("aten::mm", 0, 8).launches(kernel("gemm", 500, 10), at=1, dur=1)
    free = 510.0
    for i, (operator, dur) in enumerate(copies):
        at = 10 + 10 * i
        builder.python(f"train.py({i}): forward", at, 8, i + 1)
        builder.op(operator, at + 1, 6).op("aten::copy_", at + 2, 4)
        builder.launches(memcpy(dur, free, name, bytes=1 << 20), at=at + 3, dur=1, name="cudaMemcpyAsync")
        free += dur
    return builder


def test_copies_by_two_operators() -> None:
    """90 and 40 of 1,000 us; all of them go at best, none for sure."""
    seen = said("device_copies", step(("aten::cat", 90), ("aten::clone", 40)))
    assert seen is not None and (seen.least, seen.most) == (0, 130)
    assert seen.text == (
        "Copies within the GPU take 130 µs per step (13.0 %), 2.00 MiB, launched by aten::cat (69 %) and aten::clone "
        "(31 %), mostly at train.py(0): forward."
    )


@pytest.mark.parametrize(
    ("builder", "fires"),
    [
        (step(("aten::clone", 20)), True),
        (step(("aten::clone", 19.9)), False),
        (step(("aten::to", 130), name=TO), False),
        (step(("aten::copy_", 130), name="CopyDeviceToDevice"), True),
    ],
    ids=["2 %", "less", "to the GPU", "another vendor"],
)
def test_share_and_direction_decide(builder: TraceBuilder, fires: bool) -> None:
    assert (said("device_copies", builder) is not None) is fires


def test_the_saving_is_no_more_than_the_copies_and_their_operators() -> None:
    findings = findings_of(step(("aten::cat", 130), host=100).table(), None).all
    (found,) = [each for each in findings if each.rule.id == "device_copies"]
    saving = found.notice.saving
    assert saving is not None and saving.low_ns == 0 and 100_000 < saving.high_ns <= 130_000 * 1.03 + 4_000


def test_copies_of_two_devices_are_a_mean() -> None:
    builder = step(("aten::cat", 30)).device(1).op("aten::mm", 900, 5).launches(kernel("gemm", 5, 910, device=1))
    builder.op("aten::clone", 920, 5).launches(memcpy(6, 930, WITHIN, device=1), name="cudaMemcpyAsync")
    assert said("device_copies", builder) is None, "18 of 1,000 us in the mean"
