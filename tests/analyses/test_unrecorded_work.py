"""Work from before the recording: when it counts, and what else makes launches wait."""

from __future__ import annotations

import pytest

from tb_plugin.analyses.unrecorded_work import unrecorded_work
from tb_plugin.payloads import Notices
from tb_plugin.trace.intervals import measure
from tests.builders import TraceBuilder, kernel, part, trace

MS = 1000


def unrecorded(built: TraceBuilder) -> list[tuple[int, int]]:
    """The ranges on the only device in whole microseconds."""
    found = unrecorded_work(built.table(), 0)
    pairs = [(int(a) // 1000, int(b) // 1000) for a, b in zip(found.start, found.end, strict=True)]
    assert measure(found) == 1000 * sum(b - a for a, b in pairs)
    return pairs


def later(built: TraceBuilder, latency: int = 10) -> TraceBuilder:
    """Three launches on an empty queue, from 200 ms on."""
    for at in (200 * MS, 210 * MS, 220 * MS):
        built.op("aten::add", at, 20).launches(kernel("add", 50, at + 5 + latency), dur=5)
    return built


@pytest.mark.parametrize("name", ["cudaLaunchKernel", "hipLaunchKernel", "cudaGraphLaunch", "hipGraphLaunch"])
def test_the_first_launch_waits_for_earlier_work(name: str) -> None:
    built = trace().op("aten::mm", 0, 100).launches(kernel("mm", 100, 125 * MS), at=10, dur=5, name=name)
    built.launches(kernel("mm", 100, 125 * MS + 100), at=20, dur=5, name=name)
    assert unrecorded(later(built)) == [(0, 125 * MS)]


def test_the_overview_says_it_first_and_names_no_idle_cause() -> None:
    built = trace().op("aten::mm", 0, 100).launches(kernel("mm", 100 * MS, 125 * MS), at=10, dur=5)
    said = part(built.table(), "overview").payloads["largest_costs"]
    assert isinstance(said, Notices)
    (first,) = said.notices
    assert "launched before the recording started" in first.text and "schedule(wait=1" in first.todo
    assert {figure.metric.key: figure.value for figure in first.figures}["earlier_work_ns"] == 125 * MS * 1000


def test_the_host_synchronises_meanwhile() -> None:
    built = trace().op("aten::mm", 0, 100).launches(kernel("mm", 100, 125 * MS), at=10, dur=5)
    assert unrecorded(later(built.call(200, 126 * MS, name="cudaDeviceSynchronize"))) == [(0, 125 * MS)]


def test_another_stream_runs_before_the_launch_that_waits() -> None:
    built = trace().op("aten::add", 0, 20).launches(kernel("add", 5, 80, stream=1), at=70, dur=5)
    built.op("aten::mm", 100, 50).launches(kernel("mm", 100, 125 * MS, stream=2), at=110, dur=5)
    assert unrecorded(later(built)) == [(0, 80), (85, 125 * MS)]


def test_a_single_launch_does_not_define_its_own_usual_latency() -> None:
    assert unrecorded(trace().op("aten::mm", 0, 100).launches(kernel("mm", 9, 50 * MS), dur=5)) == [(0, 50 * MS)]


def test_a_wait_like_the_later_ones_proves_nothing() -> None:
    built = trace().op("aten::mm", 0, 100).launches(kernel("mm", 100, 2 * MS + 5), dur=5)
    assert unrecorded(later(built, latency=2 * MS)) == []


def test_a_slow_first_launch_loads_code() -> None:
    built = trace().op("aten::mm", 0, 100 * MS).launches(kernel("mm", 100, 90 * MS + 10), dur=90 * MS)
    assert unrecorded(later(built)) == []


def test_a_kernel_that_begins_before_its_launch_returns() -> None:
    built = trace().op("aten::mm", 0, 100 * MS).launches(kernel("mm", 100, 80 * MS), dur=90 * MS)
    assert unrecorded(later(built)) == []


def test_gaps_between_late_launches_are_idle() -> None:
    assert unrecorded(later(trace().op("aten::mm", 0, 20).launches(kernel("mm", 10, 15), dur=5))) == []


def test_a_stream_that_waits_for_recorded_work_of_another() -> None:
    """Work that begins during the wait shows that the device takes launches: an event holds the stream up."""
    built = trace().op("aten::mm", 0, 20).launches(kernel("mm", 10, 15, stream=1), dur=5)
    built.op("aten::copy", 30, 20).launches(kernel("copy", 10, 60 * MS, stream=2), dur=5)
    built.op("aten::mm", 50 * MS, 20).launches(kernel("mm", 5 * MS, 50 * MS + 15, stream=1), dur=5)
    assert unrecorded(later(built)) == []


def test_a_collective_that_waits_for_other_ranks_is_recorded_work() -> None:
    built = trace().op("c10d::allreduce_", 0, 20)
    built.launches(kernel("ncclDevKernel_AllReduce_Sum", 100 * MS, 15), dur=5)
    built.op("aten::mm", 50, 20).launches(kernel("mm", 10, 100 * MS + 15), dur=5)
    assert unrecorded(later(built)) == []
