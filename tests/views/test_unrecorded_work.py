"""Work from before the recording: when it counts, and what else makes launches wait."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.device_time import device_time
from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.launches.unrecorded_work import unrecorded_work
from tb_plugin.analysis.step_shares import break_down
from tb_plugin.lib.intervals import Ranges, intersect, measure, measure_within
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, Figures, Notice, Notices, View
from tb_plugin.rules._ordered_findings import findings_of
from tb_plugin.views.diff.view import Diff
from tests.builders import TraceBuilder, kernel, memcpy, part, payload_of, rows, trace, whole_part
from tests.conftest import UNLIKE, loaded, needs_shared, sample

MS = 1000
NS = 1_000_000
"""Nanoseconds of a millisecond."""


def unrecorded(built: TraceBuilder, device: int = 0) -> list[tuple[int, int]]:
    """The ranges on a device, by its place, in whole microseconds."""
    found = unrecorded_work(built.table(), device)
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
    said = payload_of(part(built.table(), "overview"), "largest_costs", Notices)
    (first,) = said.notices
    assert "launched before the recording started" in first.text and "synchronize()" in first.todo
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


# What else proves it, and what does not


def test_a_copy_that_the_host_waits_for() -> None:
    """Such a call returns after its copy: it counts from its start."""
    to_host = memcpy(5, 125 * MS, "Memcpy DtoH (Device -> Pageable)")
    built = trace().op("aten::item", 0, 125 * MS + 20).launches(to_host, at=10, dur=125 * MS, name="cudaMemcpyAsync")
    assert unrecorded(later(built)) == [(0, 125 * MS)]


def test_a_copy_in_a_program_that_begins() -> None:
    """The driver is set up ahead of it: that may be what takes so long."""
    copy = memcpy(5, 125 * MS, "Memcpy HtoD (Pageable -> Device)")
    built = trace().op("aten::to", 0, 125 * MS + 20).call(2, 3, name="cudaMalloc")
    built.launches(copy, at=10, dur=125 * MS, name="cudaMemcpy")
    assert unrecorded(later(built)) == []


@pytest.mark.parametrize("name", ["cudaDeviceSynchronize", "cudaEventSynchronize", "hipStreamSynchronize"])
def test_the_host_waits_before_it_launches_anything(name: str) -> None:
    assert unrecorded(later(trace().call(0, 60 * MS, name=name))) == [(0, 60 * MS)]


def test_a_late_wait_ahead_of_all_launches_proves_itself() -> None:
    built = trace().op("aten::empty", 0, 20).call(100 * MS, 30 * MS, name="cudaEventSynchronize")
    assert unrecorded(later(built)) == [(100 * MS, 130 * MS)]


def test_a_wait_after_the_first_launch_may_be_for_that_one() -> None:
    built = trace().op("aten::mm", 0, 20).launches(kernel("mm", 10, 15), dur=5)
    assert unrecorded(later(built.call(40, 60 * MS, name="cudaDeviceSynchronize"))) == []


def test_a_stream_that_is_used_after_the_device_was_drained() -> None:
    built = trace().call(10, 500, name="cudaDeviceSynchronize")
    built.op("aten::mm", 1000, 20).launches(kernel("mm", 10, 30 * MS), dur=5)
    assert unrecorded(later(built)) == []


def test_a_stream_that_waits_for_a_long_kernel_of_another() -> None:
    """No wait is recorded, but work runs until then: nothing says that more was in the way."""
    built = trace().op("aten::mm", 0, 20).launches(kernel("mm", 60 * MS, 20, stream=1), dur=5)
    built.op("aten::add", 100, 20).launches(kernel("add", 10, 60 * MS + 25, stream=2), dur=5)
    assert unrecorded(later(built)) == []


@pytest.mark.parametrize(("launches", "expected"), [(1, []), (20, [(30 * MS + 15, 50 * MS)])])
def test_a_wait_that_is_short_for_the_time_since_the_start(launches: int, expected: list[tuple[int, int]]) -> None:
    """The host loads data for 30 ms, then launches wait for 20 ms: where they pile up, that much is proven and no more."""
    built = trace().op("aten::empty", 0, 20)
    for each in range(launches):
        begin = 30 * MS + each * 50
        work = kernel("mm", 100, 50 * MS + each * 101)
        built.op("aten::mm", begin, 40).launches(work, at=begin + 10, dur=5)
    assert unrecorded(later(built)) == expected


def test_a_launch_whose_work_is_not_recorded_may_be_in_the_way() -> None:
    built = trace().op("aten::empty", 0, 20).op("aten::mm", 30 * MS, 20).call(30 * MS + 10, 5, corr=77)
    built.op("aten::mm", 30 * MS + 40, 50).launches(kernel("mm", 100, 125 * MS), at=30 * MS + 50, dur=5)
    assert unrecorded(later(built)) == [(30 * MS + 10, 125 * MS)]


def test_a_launch_that_is_captured_is_in_no_way() -> None:
    built = trace().op("aten::empty", 0, 20).op("aten::mm", 30 * MS, 40)
    built.call(30 * MS, 2, name="cudaStreamBeginCapture").call(30 * MS + 10, 5, corr=77)
    built.call(30 * MS + 20, 2, name="cudaStreamEndCapture")
    built.op("aten::mm", 30 * MS + 40, 50).launches(kernel("mm", 100, 125 * MS), at=30 * MS + 50, dur=5)
    assert unrecorded(later(built)) == [(0, 125 * MS)]


def two_devices(first_ends: int, start: int) -> TraceBuilder:
    """A thread launches on device 0, then on device 1."""
    built = trace().op("aten::mm", 0, 40).launches(kernel("mm", first_ends - 50, 50), at=10, dur=5)
    built.op("aten::mm", 50, 40).launches(kernel("mm", 100, start, device=1), at=60, dur=5)
    for at in (200 * MS, 210 * MS, 220 * MS):
        built.op("aten::add", at, 20).launches(kernel("add", 50, at + 15, device=1), at=at, dur=5)
        built.launches(kernel("add", 50, at + 16), at=at + 6, dur=5)
    return built


def test_only_one_device_is_busy_with_unrecorded_work() -> None:
    built = two_devices(first_ends=20 * MS, start=125 * MS)
    assert unrecorded(built, 0) == []
    assert unrecorded(built, 1) == [(0, 125 * MS)]
    text = costs(built.table())[-1]
    assert "device 1 runs work launched before the recording started" in text.text


def test_a_device_that_waits_for_what_another_computes() -> None:
    assert unrecorded(two_devices(first_ends=125 * MS, start=125 * MS + 20), 1) == []


def gap_between_steps(second: int) -> TraceBuilder:
    """The profiler records steps 1 and ``second``; work that was launched between them runs until 400 ms."""
    built = trace()
    for number, at in ((1, 0), (second, 300 * MS)):
        built.step(number, at, 150 * MS)
        for each in range(5):
            begin = at + each * MS
            work = kernel("mm", 100, 400 * MS + each * 200 if at else begin + 15)
            built.op("aten::mm", begin, 50).launches(work, at=begin, dur=5)
    return built


def test_work_that_was_launched_while_the_profiler_paused() -> None:
    built = gap_between_steps(second=7)
    assert unrecorded(built) == [(300 * MS, 400 * MS)]
    conserved(built.table())
    pause = payload_of(part(built.table(), "idle", ("7",)), "summary", Figures)
    values = {figure.metric.key: figure.value for figure in pause.figures}
    assert (values["unrecorded_ns"], values["idle_ns"]) == (100 * NS, 150 * NS - 100 * NS - 500_000)


def test_steps_that_follow_each_other_have_no_pause() -> None:
    assert unrecorded(gap_between_steps(second=2)) == []


# What pages say


def waits_for_earlier_work(name: str = "cudaLaunchKernel") -> TraceBuilder:
    """A step of 200 ms: unrecorded work until 125 ms, then a kernel of 50 ms for which the host waits."""
    built = trace().step(1, 0, 200 * MS).op("aten::mm", 0, 100)
    built.launches(kernel("mm", 50 * MS, 125 * MS), at=10, dur=5, name=name)
    return built.call(200, 175 * MS - 200, name="cudaDeviceSynchronize")


def costs(table: TraceTable) -> list[Notice]:
    found = payload_of(part(table, "overview"), "largest_costs", Notices)
    return list(found.notices)


def figures(table: TraceTable, view: str, name: str = "summary") -> dict[str, Any]:
    found = payload_of(part(table, view), name, Figures)
    return {figure.metric.key: figure.value for figure in found.figures}


def parts_of(table: TraceTable, name: str) -> dict[str, float]:
    found = payload_of(part(table, "overview"), name, Breakdown)
    assert sum(each.value for each in found.parts) == found.total
    return {each.category: each.value for each in found.parts if each.value}


def test_the_overview_has_a_part_of_its_own_for_it() -> None:
    table = waits_for_earlier_work().table()
    assert parts_of(table, "average_step") == {"kernel": 50 * NS, "unrecorded": 125 * NS, "other": 25 * NS}
    shown = figures(table, "overview", "headline")
    assert shown["unrecorded_ns"] == 125 * NS
    assert shown["utilization"] == 50 / 75
    facts = part(table, "overview").facts
    assert facts["overview.breakdown.unrecorded_mean_ns"] == 125 * NS
    assert facts["overview.breakdown.runtime_mean_ns"] == 0
    assert facts["device.0.idle_ns"] == 0  # from its first recorded work on


def test_the_device_time_has_a_part_of_its_own_for_it() -> None:
    built = waits_for_earlier_work()
    built.op("aten::add", 2, 5).launches(kernel("add", 5, 9, stream=1), dur=5)
    table = built.table()
    window, earlier = 175 * MS - 9, 125 * MS - 14
    assert parts_of(table, "device_time_0") == {"compute": 50 * NS + 5000, "unrecorded": earlier * 1000}
    time = device_time(table, 0)
    assert time is not None and (time.window_ns, time.unrecorded_ns, time.idle_ns) == (window * 1000, earlier * 1000, 0)


def test_idle_time_is_without_it() -> None:
    table = waits_for_earlier_work().table()
    shown = figures(table, "idle")
    assert (shown["idle_ns"], shown["unrecorded_ns"], shown["idle_ratio"]) == (25 * NS, 125 * NS, 25 / 75)
    (row,) = rows(table, "idle", "idle_steps")
    assert (row["idle_ns"], row["unrecorded_ns"]) == (25 * NS, 125 * NS)
    answer = part(table, "idle").payloads["answer"]
    assert isinstance(answer, Notices) and "not idle time" in answer.notices[0].text
    assert "synchronize()" in answer.notices[0].todo


def test_launches_wait_in_a_queue_for_it() -> None:
    """What waited 125 ms is no latency, and no idle time of a call."""
    table = waits_for_earlier_work().table()
    facts = part(table, "launches").facts
    assert facts["launch.empty_queue"] == 0 and facts["launch.latency_p50_ns"] is None
    assert facts["launch.queue_p50_ns"] == 125 * NS - 15_000
    assert facts["launch.starved_ns"] == 0 and facts["launch.late"] == 0
    assert facts["launches.device_idle_ns"] == 0
    # Of the 75 ms with recorded work the queue is empty all the time: its only launch has begun.
    assert facts["launch.0.starved_ratio"] == 1
    answer = payload_of(part(table, "launches"), "launch_answer", Notices)
    assert "1 launch waited for unrecorded work" in answer.notices[0].text
    assert "synchronize()" in answer.notices[0].todo


def test_a_graph_that_waits_for_it_has_no_latency() -> None:
    table = waits_for_earlier_work("cudaGraphLaunch").table()
    causes = {row["cause"]: row["idle_ns"] for row in rows(table, "idle", "idle_causes")}
    assert causes == {"Python": 25 * NS}


def test_no_finding_counts_it_as_idle_time() -> None:
    built = trace()
    for number in range(6):
        at = number * 200 * MS
        built.step(number, at, 199 * MS).op("aten::mm", at, 100)
        begins = at + (125 * MS if number == 0 else 20)
        built.launches(kernel("mm", (70 if number == 0 else 180) * MS, begins), at=at + 10, dur=5)
        built.call(at + 200, 198 * MS, name="cudaDeviceSynchronize")
    table = built.table()
    assert figures(table, "overview", "headline")["utilization"] > 0.9
    rules = {each.rule.id for each in findings_of(table, None).all}
    assert not rules & {
        "low_utilization",
        "idle_device",
        "launch_bound",
        "small_batch",
        "step_outliers",
        "slow_first_step",
    }


def test_a_first_step_that_waits_for_it_is_not_slow() -> None:
    built, at = trace(), 0
    for number in range(8):
        waits = 300 * MS if number == 0 else 0
        built.step(number, at, waits + 100 * MS).op("aten::mm", at, 100)
        built.launches(kernel("mm", 80 * MS, at + max(waits, 20)), at=at + 10, dur=5)
        built.call(at + 100, waits + 80 * MS, name="cudaStreamSynchronize")
        at += waits + 100 * MS
    table = built.table()
    assert measure(unrecorded_work(table, 0)) == 300 * NS
    assert "slow_first_step" not in [each.rule.id for each in findings_of(table, None).all]


def test_a_server_neither_works_nor_idles_in_it() -> None:
    """Four decode steps of 20 ms, 10 ms of work each; the first one begins 30 ms late for earlier work."""
    built = trace()
    starts = (0, 50 * MS, 70 * MS, 90 * MS)
    for number, at in enumerate(starts):
        begins = 32 * MS if number == 0 else at + 20
        built.annotation("step[DECODE bs=8]", at, 15 * MS)
        built.launches(kernel("mm", 10 * MS, begins), at=at + 10, dur=5)
    table = built.table()
    found = payload_of(whole_part(table, "serving"), "answer", Notices)
    (notice,) = found.notices
    values = {figure.metric.key: figure.value for figure in notice.figures}
    # Cycles of 50, 20 and 20 ms.
    assert values["decode_cycle_ns"] == 30 * NS
    assert values["decode_work_ns"] == 10 * NS
    assert values["decode_idle_ns"] == pytest.approx((90 - 30 - 32) / 3 * NS)
    assert values["decode_busy_ratio"] == pytest.approx(30 / 58)
    assert values["unrecorded_ns"] == 32 * NS
    assert "unrecorded work" in notice.text and notice.todo


def test_a_diff_with_a_recording_that_has_none() -> None:
    """The waterfall still sums to the difference of the steps."""
    plain = trace().step(1, 0, 75 * MS).op("aten::mm", 0, 100).launches(kernel("mm", 50 * MS, 20), at=10, dur=5)
    sides = [whole_part(each.table(), "diff") for each in (plain, waits_for_earlier_work())]
    for base, exp in (sides, sides[::-1]):
        answer = Diff().answer([base, exp], Params())
        assert isinstance(answer, View)
        fall = payload_of(answer, "waterfall", Breakdown)
        changes = {each.category: each.value for each in fall.parts}
        sign = 1 if base is sides[0] else -1
        assert changes["unrecorded"] == sign * 125 * NS
        assert sum(changes.values()) == fall.total == sign * 125 * NS


# Sums


def conserved(table: TraceTable) -> None:
    """Busy, idle and unrecorded time sum to each step and to the time from first to last work, on each device."""
    shares = break_down(table, None)
    assert np.array_equal(sum(shares.parts.values()), shares.total)
    start, end = table.steps.start_ns, table.steps.end_ns
    for device, busy in device_busy(table).items():
        earlier = unrecorded_work(table, device)
        assert not measure(intersect(busy, earlier))
        account = idle_account(table, device)
        idle = sum(account.by_cause(start, end).values(), np.zeros(len(start), np.int64))
        assert (measure_within(busy, start, end) + idle + measure_within(earlier, start, end) == end - start).all()
        time = device_time(table, device) if device >= 0 else None
        if time is not None:
            assert time.busy_ns + time.idle_ns + time.unrecorded_ns == time.window_ns
            assert min(time.idle_ns, time.unrecorded_ns) >= 0
            whole = Ranges(busy.start[:1], busy.end[-1:])
            assert time.unrecorded_ns == (measure(intersect(whole, earlier)) if len(busy) else 0)


@pytest.mark.parametrize("name", UNLIKE)
def test_samples_are_conserved_and_have_none(name: str) -> None:
    table = sample(name)
    conserved(table)
    assert not any(len(unrecorded_work(table, device)) for device in device_busy(table))


REAL: Mapping[str, int] = {
    "tracelens/sglang_decode/sglang_Qwen3-8B_decode.json.gz": 463_375_994,
    "tracelens/vllm_decode_full/graph_execution.json.gz": 8_370_878,
    "tracelens/vllm_decode_full/capture_traces/graph_capture_rank_0.1773709742341309550.pt.trace.json.gz": 0,
    "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz": 0,
    "tracelens/mi300/resnet_act_checkpoint.json.gz": 0,
    "hta/mtia_inference_trace/mtia_inference_rank_0.json.gz": 0,
    "hta/nccl_parser_config/nccl_data.json.gz": 0,
    "hta/trace_filter/sampled_rank-0.json.gz": 0,
    "kineto/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz": 0,
}


@needs_shared
@pytest.mark.parametrize("name", REAL)
def test_real_recordings_are_conserved(name: str) -> None:
    table = loaded(f"shared/data/{name}")
    conserved(table)
    assert sum(measure(unrecorded_work(table, device)) for device in device_busy(table)) == REAL[name]


@pytest.mark.parametrize("seed", range(12))
def test_planted_recordings_are_conserved(seed: int) -> None:
    """Several devices and streams, of which some begin mid-flight; work that is launched late, copies and waits."""
    draw = random.Random(seed)
    built, at = trace(), 0
    busy_until = {device: draw.choice([0, draw.randrange(5 * MS, 300 * MS)]) for device in range(draw.randrange(1, 4))}
    free = {(device, stream): until for device, until in busy_until.items() for stream in range(draw.randrange(1, 3))}
    for number in range(draw.randrange(1, 5)):
        begin = at
        for _ in range(draw.randrange(3, 30)):
            device, stream = draw.choice(list(free))
            built.op("aten::mm", at, 20, tid=device + 1)
            start, dur = max(free[device, stream], at + 12), draw.randrange(1, 4 * MS)
            built.launches(kernel("mm", dur, start, device=device, stream=stream), at=at + 2, dur=5)
            free[device, stream] = start + dur + 1
            at += draw.choice([25, 50, 3 * MS])
        if draw.random() < 0.5:
            until = max(free.values())
            built.call(at, max(until - at, 0) + 5, name="cudaDeviceSynchronize")
            at = max(until, at) + 10
        built.step(number, begin, at - begin)
        at += draw.choice([5, MS])
    table = built.table()
    conserved(table)
    for place, info in enumerate(table.devices):
        found = unrecorded_work(table, place)
        if not busy_until[int(info.id)]:
            assert not len(found)
        elif len(found):
            # Until the first work that waited for it, and no longer.
            assert int(found.end[-1]) <= 1000 * busy_until[int(info.id)]
