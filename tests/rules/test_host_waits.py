"""Waits of the host for a device: which rule each belongs to, and what mending it saves."""

from __future__ import annotations

import random

import pytest

from tb_plugin.findings import finding
from tb_plugin.rules._ordered_findings import MARGIN, Finding, findings_of
from tests.builders import TraceBuilder, kernel, memcpy, trace

US = 1000
TO_HOST = "Memcpy DtoH (Device -> Pageable)"
MINE = {
    "synchronising_calls",
    "deterministic_sync",
    "pageable_copies",
    "exposed_copies",
    "repeated_copies",
    "data_loading",
}


def found(builder: TraceBuilder) -> dict[str, Finding]:
    """The findings of the rules of waits and copies."""
    return {each.rule.id: each for each in findings_of(builder.table(), None).all if each.rule.id in MINE}


def saving(each: Finding) -> tuple[float, float]:
    """What it saves at least and at most in microseconds, without the margin around both."""
    assert each.notice.saving is not None
    low, high = each.notice.saving.low_ns / (1 - MARGIN), each.notice.saving.high_ns / (1 + MARGIN)
    return round(low / US, 3), round(high / US, 3)


def whole(microseconds: float) -> float:
    """An upper bound that is all that can be saved: it has no margin."""
    return round(microseconds / (1 + MARGIN), 3)


def text(each: Finding) -> str:
    return str(finding(each.notice).text)


def item(builder: TraceBuilder, at: int, until: int, tid: int = 1) -> TraceBuilder:
    """``.item()``: a copy of 2 us once the device is done at ``until`` - 10, and the wait for it."""
    builder.op("aten::item", at, until - at, tid=tid).op("aten::_local_scalar_dense", at + 1, until - at - 2, tid=tid)
    builder.launches(memcpy(2, until - 10, TO_HOST), at=at + 10, dur=5, name="cudaMemcpyAsync")
    return builder.call(at + 15, until - 5 - (at + 15), tid=tid, name="cudaStreamSynchronize")


def waiting(next_launch: int = 530) -> TraceBuilder:
    """A step of 1 ms: 400 us of work, a wait for its result until 430, and then 400 us of work that is launched later."""
    builder = trace().step(1, 0, 1000).python("train.py(7): step", 1, 990)
    builder.op("aten::mm", 10, 15).launches(kernel("first", 400), at=10, dur=10)
    item(builder, 30, 430)
    return builder.op("aten::mm", next_launch, 15).launches(kernel("second", 400), at=next_launch, dur=10)


def test_a_wait_costs_what_the_device_has_nothing_to_do_afterwards() -> None:
    """Nobody waits: the second kernel follows the copy at 422, or where the copy goes as well, the first at 420."""
    each = found(waiting())["synchronising_calls"]
    assert saving(each) == (1000 - (422 + 400), 1000 - (420 + 400))
    assert text(each) == "Per step, the CPU waits 385 µs for the GPU, once to read a value, at train.py(7): step."
    table = waiting().table()
    assert [table.strings[int(table.name[row])] for row in each.events] == ["cudaStreamSynchronize", "cudaMemcpyAsync"]


def test_what_not_every_step_does_is_a_mean() -> None:
    builder = waiting().step(2, 1000, 500).op("aten::mm", 1010, 90)
    for at in range(1010, 1100, 20):
        builder.launches(kernel("third", 10), at=at, dur=5)
    each = found(builder)["synchronising_calls"]
    assert "0.500 times on average to read a value" in text(each)


def test_a_wait_that_nothing_follows_costs_nothing() -> None:
    builder = trace().step(1, 0, 4032).op("aten::mm", 10, 15).launches(kernel("first", 4000), at=10, dur=10)
    assert not found(item(builder, 30, 4030))


def test_only_the_upper_bound_of_a_percent_counts() -> None:
    """The step ends with the second kernel: it is 10 us shorter, or 8 and too little, of 940."""

    def step(host: int) -> TraceBuilder:
        builder = trace().step(1, 0, 530).op("aten::mm", 10, 15).launches(kernel("first", 400), at=10, dur=10)
        builder.call(30, 392, name="cudaDeviceSynchronize")
        return builder.op("aten::mm", 422, 15).launches(kernel("second", 400), at=422, dur=host - 2)

    assert saving(found(step(10))["synchronising_calls"]) == (10, 10)
    assert not found(step(8))


def test_a_call_that_only_synchronises_is_told_apart() -> None:
    builder = trace().step(1, 0, 1000).op("aten::mm", 10, 15).launches(kernel("first", 400), at=10, dur=10)
    builder.call(30, 400, name="cudaDeviceSynchronize")
    builder.op("aten::mm", 530, 15).launches(kernel("second", 400), at=530, dur=10)
    each = found(builder)["synchronising_calls"]
    assert text(each) == "Per step, the CPU waits 400 µs for the GPU, once in explicit synchronization."
    assert "torch.cuda.synchronize" in each.notice.todo and ".item()" not in each.notice.todo
    both = found(item(builder, 600, 990))["synchronising_calls"]
    assert "2 times (once in explicit synchronization, otherwise to read a value)" in text(both)


def test_once_in_many_steps_is_fine() -> None:
    """Two of four steps take a value: that is often. One of four: it is not."""

    def training(steps: set[int]) -> TraceBuilder:
        builder = trace()
        for i in range(4):
            begin = 1000 * i
            builder.step(i, begin, 1000).op("aten::mm", begin + 10, 15)
            builder.launches(kernel("first", 400), at=begin + 10, dur=10)
            if i in steps:
                item(builder, begin + 30, begin + 430)
            builder.op("aten::mm", begin + 530, 15).launches(kernel("second", 400), at=begin + 530, dur=10)
        return builder

    assert "synchronising_calls" in found(training({1, 3}))
    assert not found(training({1}))


@pytest.mark.parametrize(
    ("name", "where"),
    [("enumerate(DataLoader)#_X.__next__", "annotation"), ("torch/profiler/profiler.py(9): step", "python")],
)
def test_what_the_loader_and_the_profiler_wait_for_is_theirs(name: str, where: str) -> None:
    builder = waiting()
    getattr(builder, where)(name, 29, 403)
    assert "synchronising_calls" not in found(builder)


def test_the_order_of_the_file_says_nothing() -> None:
    builder = waiting()
    first = found(builder)["synchronising_calls"]
    random.Random(1).shuffle(builder.events)
    again = found(builder)["synchronising_calls"]
    assert (saving(first), text(first), first.events.tolist()) == (saving(again), text(again), again.events.tolist())


def backward(name: str, forward: str, forward_waits: bool = False) -> TraceBuilder:
    """A forward operator in a module, and its backward operator on the engine's thread, which waits as ``waiting`` does."""
    builder = trace().step(1, 0, 1000).python("model.py(70): forward", 1, 27).module("PatchDropout", 2, 26)
    builder.op(forward, 3, 20, sequence=7).launches(kernel("first", 400), at=10, dur=10)
    if forward_waits:
        builder.op("aten::nonzero", 3, 6).call(4, 1, name="cudaStreamSynchronize")
    builder.op(f"autograd::engine::evaluate_function: {name}", 28, 420, tid=2, sequence=7, forward_thread=1)
    builder.op(name, 29, 418, tid=2, sequence=7, forward_thread=1)
    item(builder, 30, 430, tid=2)
    return builder.op("aten::mm", 530, 15, tid=2).launches(kernel("second", 400), at=530, dur=10)


def test_a_backward_operator_that_waits_alone_is_named() -> None:
    each = found(backward("GatherBackward0", "aten::gather"))
    assert each.keys() == {"deterministic_sync"}
    assert text(each["deterministic_sync"]) == (
        "Per step, GatherBackward0 of aten::gather in PatchDropout_0 at model.py(70): forward makes the CPU wait 385 µs "
        "for the GPU, once. Likely cause: deterministic algorithms, because the forward operators do not wait."
    )
    assert saving(each["deterministic_sync"])[0] == 1000 - (422 + 400)


@pytest.mark.parametrize(
    ("name", "forward", "forward_waits"),
    [("IndexBackward0", "aten::index", True), ("MulBackward0", "aten::mul", False)],
    ids=["the forward operator waits as well", "no deterministic form"],
)
def test_other_waits_in_backward_are_plain_ones(name: str, forward: str, forward_waits: bool) -> None:
    assert found(backward(name, forward, forward_waits)).keys() == {"synchronising_calls"}
