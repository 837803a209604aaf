"""Steps: how device work extends them, which are left out, and what is a step at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tb_plugin.model.trace.steps.windows import _complete
from tb_plugin.model.trace.table import Steps, TraceTable
from tests.builders import TraceBuilder, Work, kernel, memcpy, model, trace


def windows(table: TraceTable) -> dict[str, tuple[int, int]]:
    """Label -> start and end in microseconds since the first event."""
    steps = table.steps
    bounds = zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True)
    return {label: (start // 1000, end // 1000) for label, (start, end) in zip(steps.label, bounds, strict=True)}


def test_a_step_ends_with_the_last_work_it_launched() -> None:
    table = trace().step(3, 0, 100).launches(kernel(dur=30, at=110), at=50).table()
    assert windows(table) == {"3": (0, 140)}
    assert (table.steps.host_start_ns.tolist(), table.steps.host_end_ns.tolist()) == ([0], [100_000])


def test_a_step_begins_where_the_one_before_ended_on_the_device() -> None:
    builder = trace().step(1, 0, 100).launches(kernel(dur=50, at=90), at=50)
    assert windows(builder.step(2, 100, 100).launches(kernel(dur=10, at=150), at=120).table()) == {
        "1": (0, 140),
        "2": (140, 200),
    }


def test_a_step_that_lies_wholly_in_the_work_of_the_one_before_is_empty() -> None:
    builder = trace().step(1, 0, 100).launches(kernel(dur=300, at=90), at=50)
    builder.step(2, 100, 100).launches(kernel(dur=10, at=150, stream=9), at=120)
    assert windows(builder.table()) == {"1": (0, 390), "2": (390, 390)}


def test_a_launch_across_the_end_of_a_step_is_no_step_s() -> None:
    builder = (
        trace().step(1, 0, 100).launches(kernel(dur=10, at=20), at=10).launches(kernel(dur=99, at=200), at=90, dur=20)
    )
    assert windows(builder.table()) == {"1": (0, 100)}


def test_a_launch_that_fills_its_step_is_the_step_s() -> None:
    assert windows(trace().step(1, 0, 100).launches(kernel(dur=10, at=200), at=0, dur=100).table()) == {"1": (0, 210)}


def test_work_queued_before_the_first_step_is_not_its_time() -> None:
    builder = trace().op("warmup", 0, 10).launches(kernel("old", 50, 30))
    builder.step(1, 40, 100).launches(kernel("new", 10, 100), at=60)
    assert windows(builder.table()) == {"1": (80, 140)}


def leftover_and_step(copy_at: int, leftover: Work, **launched: Any) -> TraceTable:
    """A leftover, and a step on the host from 1000 to 1100 with a kernel from 1091 to 1111 and a copy."""
    builder = trace().op("warmup", 0, 10)
    builder = builder.on_device(leftover, **launched) if launched else builder.launches(leftover)
    builder.step(1, 1000, 100).launches(memcpy(3, copy_at, stream=9), at=1001)
    return builder.launches(kernel(dur=20, at=1091), at=1002).table()


@pytest.mark.parametrize("launched", [{}, {"corr": 5}], ids=["seen", "not seen"])
@pytest.mark.parametrize("copy_at", [1095, 1011])
def test_work_that_was_launched_earlier_is_cut_whatever_the_step_does_meanwhile(
    copy_at: int, launched: dict[str, int]
) -> None:
    table = leftover_and_step(copy_at, kernel("leftover", dur=80, at=1010), **launched)
    assert windows(table) == {"1": (1090, 1111)}


@pytest.mark.parametrize(("at", "begin"), [(1010, 1000), (1000, 1000), (999, 1079)])
def test_work_without_a_launch_cuts_the_first_step_only_if_it_starts_before_it(at: int, begin: int) -> None:
    """It lasts 80: of what starts at 999, the step's start moves to 1079."""
    assert windows(leftover_and_step(1095, kernel("copy", dur=80, at=at), ext=99)) == {"1": (begin, 1111)}


def test_a_copy_without_a_launch_near_the_end_leaves_the_step_its_kernels() -> None:
    """Eight kernels in 1 ms and one copy from 990 to 995 whose launch is not recorded: the step is the annotation."""
    builder = trace().step(1, 1000, 1000)
    for i in range(8):
        builder.launches(kernel(dur=70, at=1025 + 100 * i), at=1015 + 100 * i)
    builder.on_device(memcpy(5, 1990, stream=9), ext=99)
    assert windows(builder.table()) == {"1": (0, 1000)}, "since the first event, the annotation"


def test_work_that_was_launched_earlier_is_cut_where_it_ends_as_the_step_s_own_begins() -> None:
    assert windows(leftover_and_step(1095, kernel("leftover", dur=81, at=1010))) == {"1": (1091, 1111)}


def test_work_that_was_launched_earlier_and_outlives_the_first_step_leaves_it_empty() -> None:
    assert windows(leftover_and_step(1011, kernel("leftover", dur=990, at=1010, stream=8))) == {"1": (1111, 1111)}


def test_work_queued_before_a_first_step_without_device_work_is_not_its_time() -> None:
    builder = trace().op("warmup", 0, 10).launches(kernel("leftover", 80, 1010))
    builder.step(1, 1000, 100).step(2, 1100, 100).launches(kernel(dur=20, at=1150), at=1110)
    assert windows(builder.table()) == {"1": (1090, 1100), "2": (1100, 1200)}


def test_work_after_the_step_s_own_on_one_stream_was_not_launched_before() -> None:
    """A stream is a queue: the second kernel follows the step's own, whatever its number; the third lies in another queue."""
    builder = trace().op("warmup", 0, 10).step(1, 1000, 100).launches(kernel(dur=5, at=1020), at=1002)
    builder.on_device(kernel("of a call that is missing", dur=30, at=1030), corr=5)
    assert windows(builder.table()) == {"1": (1000, 1100)}
    builder.on_device(kernel("leftover", dur=30, at=1050, stream=8), corr=6)
    assert windows(builder.table()) == {"1": (1080, 1100)}


def test_work_of_no_step_that_was_launched_later_moves_no_begin() -> None:
    """Between the steps, after them, and with a greater number than what the steps launched: that launch is missing."""
    builder = trace().op("warmup", 0, 10).step(1, 1000, 100).launches(kernel(dur=20, at=1050), at=1002)
    builder.on_device(kernel("launched by a call that is missing", dur=30, at=1060), corr=2_000_000)
    builder.op("between", 1101, 5).launches(kernel(dur=20, at=1105), at=1101)
    builder.step(2, 1200, 100).launches(kernel(dur=20, at=1250), at=1202)
    builder.op("after", 1301, 5).launches(kernel(dur=20, at=1305), at=1301)
    assert windows(builder.table()) == {"1": (1000, 1100), "2": (1200, 1300)}


def steps_with(*kernels: int, missing_bytes: int = 0) -> TraceTable:
    builder = trace()
    for i, count in enumerate(kernels):
        builder.step(i, 1000 * i, 1000)
        for k in range(count):
            builder.launches(kernel(at=1000 * i + 10 * k), at=1000 * i + 1)
    content = builder.bytes()
    return model(content[: len(content) - missing_bytes])


@pytest.mark.parametrize(
    ("kernels", "kept"),
    [
        ((10, 10, 8), 3),
        ((10, 10, 7), 2),
        ((10, 10, 0), 2),
        ((10, 0, 0), 1),
        ((10, 7, 0), 1),
        ((0, 0, 0), 3),
        ((5, 4), 2),
        ((35, 28), 2),
        ((5, 3), 1),
        ((0, 9), 2),
        ((9, 0, 9), 3),
        ((1,), 1),
        ((0,), 1),
    ],
)
def test_trailing_steps_whose_work_is_missing_are_left_out(kernels: tuple[int, ...], kept: int) -> None:
    steps = steps_with(*kernels).steps
    assert steps.label == tuple(str(i) for i in range(kept))
    assert steps.dropped == tuple(str(i) for i in range(kept, len(kernels)))


@pytest.mark.parametrize(
    ("kernels", "kept"), [((10, 10, 9), 2), ((10, 10, 10), 3), ((10, 9, 0), 1), ((10, 0), 1), ((9,), 1)]
)
def test_the_last_step_of_a_truncated_file_needs_all_its_work(kernels: tuple[int, ...], kept: int) -> None:
    assert len(steps_with(*kernels, missing_bytes=6).steps.label) == kept
    assert not steps_with(*kernels, missing_bytes=6).report.complete


def test_eighty_percent_is_enough_at_any_count() -> None:
    counts = np.arange(5, 100_000, 5)
    assert all(_complete(np.array([n, n * 4 // 5])) == 2 for n in counts.tolist())
    assert all(_complete(np.array([n, n * 4 // 5 - 1])) == 1 for n in counts.tolist())


@pytest.mark.parametrize("category", ["user_annotation", "cpu_op", "Operator"])
def test_steps_of_all_generations(category: str) -> None:
    table = trace().event(category, "ProfilerStep#7", 0, 100, 1, 1).table()
    assert windows(table) == {"7": (0, 100)} and table.steps.recorded


def test_steps_on_device_rows_and_in_python_are_none() -> None:
    builder = trace().op("aten::mm", 0, 10).device_annotation("ProfilerStep#1", 0, 50).python("ProfilerStep#2", 0, 90)
    table = builder.table()
    assert not table.steps.recorded and windows(table) == {"0": (0, 10)}


def test_of_two_threads_that_annotate_the_one_with_most_steps_counts() -> None:
    builder = trace().step(1, 0, 10, tid=1).step(1, 0, 9, tid=2).step(2, 20, 9, tid=2)
    assert windows(builder.table()) == {"1": (0, 9), "2": (20, 29)}


@pytest.mark.parametrize("backwards", [False, True])
def test_of_two_threads_with_as_many_steps_the_choice_is_not_the_file_s_order(backwards: bool) -> None:
    builder = trace().step(1, 0, 10, tid=11).step(1, 5, 90, tid=12)
    if backwards:
        builder.events.reverse()
    assert windows(builder.table()) == {"1": (0, 10)}


@pytest.mark.parametrize(
    ("builder", "expected"),
    [
        (trace().op("a", 5, 10).annotation("x", 0, 99), {"0": (5, 15)}),
        (trace().annotation("x", 0, 99).call(100, 5), {"0": (0, 105)}),
        (trace().on_device(kernel(dur=5, at=0)).on_device(kernel(dur=5, at=30)), {"0": (0, 35)}),
        (trace().python("f", 0, 10), {"0": (0, 10)}),
        (trace(), {}),
    ],
    ids=["operators", "annotations and calls", "device alone", "python alone", "nothing"],
)
def test_a_trace_without_steps_is_one(builder: TraceBuilder, expected: dict[str, tuple[int, int]]) -> None:
    table = builder.table()
    assert windows(table) == expected
    assert not table.steps.recorded


def test_the_step_at_a_time_by_its_window_or_by_the_host() -> None:
    steps = Steps(("3", "4"), *(np.array(each) for each in ([10, 50], [40, 60], [5, 20], [20, 30])))
    times = np.array([4, 5, 10, 20, 39, 40, 59, 60])
    assert steps.at(times).tolist() == [-1, -1, 0, 0, 0, -1, 1, -1]
    assert steps.at(times, on_host=True).tolist() == [-1, 0, 0, 1, -1, -1, -1, -1]
    assert Steps().at(times).tolist() == [-1] * 8 and not len(steps.at(times[:0]))


def test_a_step_whose_end_was_lost_lasts_until_the_next_begins() -> None:
    """Where a recording is cut off, ranges without an end last to the end of the trace."""
    assert windows(trace().step(1, 0, 300).step(2, 100, 200).step(3, 200, 100).table()) == {
        "1": (0, 100),
        "2": (100, 200),
        "3": (200, 300),
    }


def test_without_steps_the_recording_takes_in_all_device_work() -> None:
    assert windows(trace().op("a", 2, 5).on_device(kernel("k", 7, 11)).table()) == {"0": (0, 16)}
    assert windows(trace().op("a", 2, 5).on_device(kernel("k", 1, 1)).table()) == {"0": (0, 6)}
    replay = trace().op("a", 0, 5).launches(kernel("in a graph", 3, 10), at=6, dur=2)
    assert windows(replay.table()) == {"0": (0, 13)}, "no operator is around the replay of a graph"
    assert windows(replay.on_device(kernel("launch lost", 1, 20), corr=99).table()) == {"0": (0, 21)}
    queued = trace().op("a", 5, 5).launches(kernel("k", 3, 10), at=6).on_device(kernel("queued earlier", 8, 0))
    assert windows(queued.table()) == {"0": (8, 13)}
