"""Hosts that are too slow for their device: launches, Python, collections, compilation, the profiler itself."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.advice import is_inference
from tb_plugin.analysis.simulate import Change
from tb_plugin.findings import finding
from tb_plugin.lib.intervals import measure
from tb_plugin.rules import compilation, garbage_collection, launch_bound, profiler_overhead, python_bound, small_batch
from tb_plugin.rules._base import NO_SAVING, Detection, Rule, Scene
from tests.builders import TraceBuilder, kernel, trace
from tests.rules.computing import saving


def look(rule: Rule, builder: TraceBuilder) -> Detection | None:
    return rule.look(Scene(builder.table()))


def seen(rule: Rule, builder: TraceBuilder) -> Detection:
    found = look(rule, builder)
    assert found is not None
    return found


def figures(found: Detection) -> dict[str, Any]:
    return {figure.metric.key: figure.value for figure in found.notice.figures}


def words(found: Detection) -> str:
    return str(finding(found.notice).text)


def host_us(change: Change | None) -> float:
    assert change is not None
    return measure(change.host) / 1000


def starving(dur: int = 10, launches: int = 20, steps: int = 2, name: str = "aten::add") -> TraceBuilder:
    """An operator of 40 every 50 us; it launches in its last 10 (5 for the call, 5 of latency)."""
    builder = trace().device(0, totalGlobalMem=1000)
    for number in range(steps):
        builder.step(number + 1, 1000 * number, 1000)
        for at in range(1000 * number, 1000 * number + 50 * launches, 50):
            builder.op(name, at, 40).launches(kernel("k", dur, at + 40), at=at + 30, dur=5)
    return builder


# -- launch_bound ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dur", "fires"), [(10, True), (40, True), (41, False)])
def test_kernels_shorter_than_their_launches(dur: int, fires: bool) -> None:
    assert (look(launch_bound.RULE, starving(dur)) is not None) is fires


def test_what_waits_for_launches_is_told() -> None:
    """Before each of 20 kernels of a step the device has nothing to do for 40."""
    found = seen(launch_bound.RULE, starving())
    told = figures(found)
    assert (told["launching_ns"], told["launch_every_ns"], told["kernel_median_ns"]) == (800_000, 40_000, 10_000)
    assert (told["step_launches"], told["launching_ratio"]) == (20, 0.8)
    assert words(found) == (
        "In each 1.00 ms step, GPUs wait 800 µs for launches. A launch takes 40.0 µs of CPU time, and half of the "
        "kernels take at most 10.0 µs. A captured graph also removes the Python between launches."
    )

    assert words(seen(launch_bound.RULE, starving(steps=1))).startswith("In the 1.00 ms step, GPUs wait 800 µs ")


def test_the_advice_fits_a_model_that_is_only_run() -> None:
    running, training = starving(), starving(name=BACKWARD)
    todo = running.table().recorder.todo
    assert seen(launch_bound.RULE, running).notice.todo == todo("launch_bound.inference")
    assert seen(launch_bound.RULE, training).notice.todo == todo("launch_bound")
    assert seen(launch_bound.RULE, starving().annotation("Optimizer.step#SGD.step", 1000, 5)).notice.todo == todo(
        "launch_bound"
    )
    # Of a device alone, or of collectives, nobody knows; a kernel may tell.
    assert not is_inference(trace().on_device(kernel("k", 5, 0), corr=1).table())
    wgrad = trace().op("aten::add", 0, 5).launches(kernel("cudnn_wgrad", 5, 10))
    assert is_inference(trace().op("aten::add", 0, 5).table()) and not is_inference(wgrad.table())


def test_launches_that_repeat_go_at_least_and_all_of_the_step_at_most() -> None:
    """At most all of 0..990 in each step: kernels run without a gap from 5 on, 40 times 10. At least all operators but the
    first of each step: kernels gain 30, then 35 each (5 of latency stay), in all 30 + 38 * 35."""
    assert saving(launch_bound.RULE, starving()) == (30 + 38 * 35, 2000 - 405)


def test_work_that_steps_do_not_share_and_single_steps_repeat_nothing() -> None:
    builder = starving(steps=3)
    for event in builder.events:
        if event.get("cat") == "kernel" and event["ts"] > 2000:
            event["name"] = f"other_{event['ts']}"
    # 19 operators of each of the first two steps: what the third one runs is its own.
    assert host_us(seen(launch_bound.RULE, builder).saving.least) == 2 * 19 * 40
    assert host_us(seen(launch_bound.RULE, starving(steps=1)).saving.least) == 0
    # One chosen step of three is known to repeat by the others.
    chosen = [launch_bound.RULE.look(Scene(builder.table(), (label,))) for label in ("1", "2", "3")]
    assert [host_us(each.saving.least) for each in chosen if each] == [19 * 40, 19 * 40, 0]


def test_few_launches_and_long_operators_are_no_launches_to_wait_for() -> None:
    assert look(launch_bound.RULE, starving(launches=19)) is None
    one = trace().step(1, 0, 50_000)
    for at in range(0, 50_000, 2000):  # the operator loads code, or computes
        one.op("aten::add", at, 1990).launches(kernel("k", 5, at + 1990), at=at + 1980, dur=5)
    assert look(launch_bound.RULE, one) is None


@pytest.mark.parametrize(("dur", "fires"), [(60_000, True), (90_000, False)])
def test_a_long_kernel_hides_launches(dur: int, fires: bool) -> None:
    """Idle are 40 before each of 20 kernels: 1 % of a step of 80,000."""
    builder = trace().step(1, 0, 1010)
    for at in range(0, 1000, 50):
        builder.op("aten::add", at, 40).launches(kernel("k", 10, at + 40), at=at + 30, dur=5)
    builder.op("aten::mm", 1000, 5).launches(kernel("long", dur, 1005), dur=2)
    assert (look(launch_bound.RULE, builder) is not None) is fires


def test_where_the_host_does_something_else_most_of_the_time_that_is_to_be_mended_first() -> None:
    """800 of each 1000 are waits for launches: with 1600 of input or more in the step they are a third of all or less."""
    for input_us, fires in ((1600, True), (1601, False)):
        builder = trace().step(1, 0, 1000 + input_us).annotation("enumerate(DataLoader)#X.__next__", 1000, input_us)
        for at in range(0, 1000, 50):
            builder.op("aten::add", at, 40).launches(kernel("k", 10, at + 40), at=at + 30, dur=5)
        assert (look(launch_bound.RULE, builder) is not None) is fires


def test_waits_are_no_launches() -> None:
    """A wait for the device inside of an operator is what another rule speaks of."""
    builder = starving()
    builder.call(60, 10, name="cudaStreamSynchronize")
    plain, waiting = seen(launch_bound.RULE, starving()), seen(launch_bound.RULE, builder)
    assert host_us(plain.saving.most) - host_us(waiting.saving.most) == 10


# -- small_batch -----------------------------------------------------------------------------------------

BACKWARD = "autograd::engine::evaluate_function: AddBackward0"


def test_a_batch_twice_as_large_takes_hardly_longer() -> None:
    """Kernels of 20 still fit between launches every 50, the last one ends 10 later: a step of 1000 counts as two."""
    assert saving(small_batch.RULE, starving(name=BACKWARD)) == (2000 - 2010 / 2, 1000)


@pytest.mark.parametrize(("dur", "fires"), [(34, True), (37, False)])
def test_a_device_that_works_most_of_the_time_gains_little(dur: int, fires: bool) -> None:
    """Of every 50 it waits 16 or 13 for launches; 0.3 of the step are needed."""
    assert (look(small_batch.RULE, starving(dur, name=BACKWARD)) is not None) is fires


def test_a_larger_batch_needs_a_training_input_and_memory() -> None:
    assert look(small_batch.RULE, starving()) is None, "no backward pass"
    fed = starving(name=BACKWARD).annotation("enumerate(DataLoader)#X.__next__", 10, 25)
    assert look(small_batch.RULE, fed) is not None
    hungry = starving(name=BACKWARD)
    for at in range(0, 2000, 50):  # 12 of every 50 while nothing runs
        hungry.annotation("enumerate(DataLoader)#X.__next__", at + 10, 12)
    assert look(small_batch.RULE, hungry) is None
    for total, fires in ((500, True), (501, False)):
        builder = starving(name=BACKWARD).memory(5, 10, 1, 0, **{"Total Allocated": total})
        assert (look(small_batch.RULE, builder) is not None) is fires


# -- python_bound ----------------------------------------------------------------------------------------


def in_python(stacks: bool = True, work: int = 30, steps: int = 1) -> TraceBuilder:
    """Every 50 an operator of 10, whose kernel works at 10..20; then Python, for ``work`` of it under one line."""
    builder = trace()
    for number in range(steps):
        builder.step(number + 1, 1000 * number, 1000)
        for at in range(1000 * number, 1000 * number + 1000, 50):
            builder.op("aten::add", at, 10).launches(kernel("k", 10, at + 10), at=at + 5, dur=2)
            if stacks:
                builder.python("train.py(9): work", at + 15, work)
                builder.python("torch/functional.py(3): einsum", at + 18, 5)
    return builder


def test_the_line_that_devices_wait_for_is_named() -> None:
    """Idle from 20 on: 30 of each 50 in Python, of which the host has 40, and 30 of them under the line."""
    found = seen(python_bound.RULE, in_python())
    told = figures(found)
    assert (told["python_idle_ns"], told["python_host_ns"]) == (19 * 30_000 + 30_000, 800_000)
    assert (told["python_line"], told["python_line_ns"]) == ("train.py(9): work", 600_000)
    assert (host_us(found.saving.least), host_us(found.saving.most)) == (600, 800)
    names = [found.events[0], found.events[-1]]
    table = in_python().table()
    assert [table.strings[table.name[row]] for row in names] == ["train.py(9): work"] * 2


def test_without_stacks_no_line_goes() -> None:
    found = seen(python_bound.RULE, in_python(stacks=False))
    assert (host_us(found.saving.least), host_us(found.saving.most)) == (0, 800)
    assert words(found).endswith("No Python stacks were recorded.") and "with_stack=True" in found.notice.todo


def test_a_line_that_another_one_calls_has_its_own_time() -> None:
    builder = in_python().python("train.py(2): step", 0, 1000)
    told = figures(seen(python_bound.RULE, builder))
    assert (told["python_line"], told["python_line_ns"]) == ("train.py(9): work", 600_000)
    assert host_us(seen(python_bound.RULE, builder).saving.least) == 800, "the rest is the caller's, a fifth of all"


def test_what_one_step_waits_for_is_no_matter_of_all() -> None:
    builder = in_python(steps=1)
    for number in (1, 2):
        builder.step(number + 1, 1000 * number, 1000)
        for at in range(1000 * number, 1000 * number + 1000, 50):
            builder.op("aten::add", at, 10).launches(kernel("k", 50, at + 10), at=at + 5, dur=2)
    assert look(python_bound.RULE, builder) is None


def test_python_needs_operators_and_launches_around_it() -> None:
    only = trace().step(1, 0, 1000)
    for at in range(0, 1000, 50):
        only.call(at, 2, corr=at + 1).on_device(kernel("k", 10, at + 10), corr=at + 1)
    assert look(python_bound.RULE, only) is None
    assert (
        look(python_bound.RULE, trace().step(1, 0, 1000).op("aten::add", 0, 10).launches(kernel("k", 10, 10))) is None
    )


# -- garbage collection and compilation ------------------------------------------------------------------


def test_collections_are_counted_once() -> None:
    builder = (
        in_python(steps=2)
        .python("<built-in method collect of module object at 0x7f>", 20, 20)
        .python("Python GC", 21, 18)
    )
    builder.python("Python GC", 1020, 30).python("Python GC", 5000, 30)
    found = seen(garbage_collection.RULE, builder)
    assert list(figures(found).values()) == [2, 50_000, 30_000]
    assert host_us(found.saving.least) == 50 and found.saving.most is found.saving.least
    assert look(garbage_collection.RULE, in_python()) is None


def test_compilation_counts_on_threads_that_launch() -> None:
    frame = "torch/_dynamo/convert_frame.py(1126): _compile"
    builder = in_python(steps=2).python(frame, 1015, 30)
    found = seen(compilation.RULE, builder)
    assert (figures(found)["compiling_ns"], figures(found)["compiling_steps"]) == (30_000, 1)
    assert host_us(found.saving.least) == 30
    assert look(compilation.RULE, in_python(steps=2).python(frame, 1015, 30, tid=9)) is None
    assert "the first one" in words(seen(compilation.RULE, in_python(steps=2).python(frame, 15, 30)))


# -- profiler_overhead -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("dur", "fires"), [(9, False), (10, True)])
def test_what_the_profiler_takes(dur: int, fires: bool) -> None:
    builder = starving(steps=1).event("overhead", "Instrumentation", 10, dur, -1, 0)
    found = look(profiler_overhead.RULE, builder)
    assert (found is not None) is fires
    if found is not None:
        assert host_us(found.saving.least) == 10 and figures(found)["overhead_ns"] == 10_000


def test_a_profiler_that_works_beside_the_host_holds_nobody_up() -> None:
    builder = (
        starving(steps=1).event("overhead", "Buffer Flush", 45, 10, -1, 0).event("overhead", "Resource", 110, 5, -1, 0)
    )
    found = seen(profiler_overhead.RULE, builder)
    assert (host_us(found.saving.least), host_us(found.saving.most)) == (5, 15), "an operator begins at 50"


@pytest.mark.parametrize(("calls", "fires"), [(5, True), (4, False)])
def test_stacks_of_a_host_that_devices_wait_for(calls: int, fires: bool) -> None:
    """5 calls in each 50 us are 100 a millisecond."""
    builder = starving(steps=1)
    for at in range(0, 1000, 50):
        for number in range(calls):
            builder.python("f.py(1): f", at + number, 1)
    found = look(profiler_overhead.RULE, builder)
    assert (found is not None) is fires
    if found is not None:
        assert found.saving is NO_SAVING and figures(found)["python_rate"] == 100


# -- all of them -----------------------------------------------------------------------------------------

RULES = [module.RULE for module in (
    launch_bound, small_batch, python_bound, garbage_collection, compilation, profiler_overhead
)]  # fmt: skip


def test_the_order_of_events_changes_nothing() -> None:
    def every() -> TraceBuilder:
        builder = in_python(steps=2).python("Python GC", 1020, 5).python("train.py(8): other", 2000, 1)
        for at in range(0, 2000, 50):
            builder.python("train.py(7): equal", at + 45, 5)
        return builder.event("overhead", "Resource", 1970, 25, -1, 0)

    shuffled = every()
    random.Random(3).shuffle(shuffled.events)
    for rule in RULES:
        one, other = look(rule, every()), look(rule, shuffled)
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.notice == other.notice and np.array_equal(one.events, other.events)


def test_a_host_alone_waits_for_nobody() -> None:
    builder = trace().step(1, 0, 1000)
    for at in range(0, 1000, 50):
        builder.op("aten::add", at, 30).python("train.py(1): f", at + 35, 10)
    assert [rule.id for rule in RULES if look(rule, builder) is not None] == []
