"""Rules of communication, by hand: what nothing hides, what runs on the computing stream, and what is too small."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notice
from tb_plugin.rules._ordered_findings import MARGIN, findings_of
from tests.builders import TraceBuilder, figures, kernel, memcpy, trace
from tests.rules.test_host_waits import whole

ENGINE = "autograd::engine::evaluate_function: "


def found(table: TraceTable) -> dict[str, Notice]:
    return {each.rule.id: each.notice for each in findings_of(table, None).all}


def saving(notice: Notice) -> tuple[float, float]:
    """Bounds in microseconds, without the margin that every saving has."""
    assert notice.saving is not None
    return round(notice.saving.low_ns / (1 - MARGIN) / 1000, 3), round(notice.saving.high_ns / (1 + MARGIN) / 1000, 3)


def nccl(dur: float, at: float, stream: int, name: str = "AllReduce", elements: int = 1024, group: str = "0") -> Any:
    about = {"Collective name": name.lower(), "In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float"}
    return kernel(f"ncclDevKernel_{name}", dur, at, stream=stream, **about, **{"Process Group Name": group})


def training(host: int = 200) -> TraceBuilder:
    """The forward pass runs on the device until 300 us; the host is long done with the step."""
    return trace().step(1, 0, host).op("aten::mm", 0, 10).launches(kernel("forward", 300, 0))


def waits(builder: TraceBuilder, stream: int, begin: float, until: float) -> TraceBuilder:
    """A stream waits for another one."""
    return builder.event("cuda_sync", "Stream Wait Event", begin, until - begin, 0, stream, device=0, stream=stream)


def backward(builder: TraceBuilder, at: float, dur: float, begin: float) -> TraceBuilder:
    return builder.op(ENGINE + "MmBackward0", at, 5).launches(kernel("backward", dur, begin))


def reduce(builder: TraceBuilder, at: float, work: Any, hooked: bool = True) -> TraceBuilder:
    if hooked:
        builder.op(ENGINE + "torch::autograd::AccumulateGrad", at, 3)
    return builder.op("c10d::allreduce_", at, 2).launches(work)


def serial(stream: int = 7) -> TraceBuilder:
    """Two all-reduces, in and after the backward pass, and then the optimizer: a step of 1000 us."""
    builder = backward(training(), 20, 200, 300)
    reduce(builder, 40, nccl(100, 500, stream))
    reduce(backward(builder, 60, 300, 600), 80, nccl(50, 900, stream))
    return builder.op("aten::adam", 100, 10).launches(kernel("adam", 50, 950))


def test_gradients_on_the_computing_stream_could_run_beneath_the_backward_pass() -> None:
    """The first one beneath the 300 us that follow it; that the last gradients' is as short as 50 us is not sure."""
    notices = found(serial().table())
    assert notices.keys() == {"serial_collectives"}
    notice = notices["serial_collectives"]
    assert saving(notice) == (50, whole(150))
    assert figures(notice) == {"serial_ns": 150_000, "serial_ratio": 0.15, "serial_collectives": 2}


def test_no_stream_of_its_own_no_finding_of_the_computing_stream() -> None:
    assert "serial_collectives" not in found(serial(stream=20).table())


def test_a_collective_of_the_forward_pass_may_be_needed_at_once() -> None:
    builder = training().op("c10d::allreduce_", 20, 5).launches(nccl(100, 300, 7))
    builder.op("aten::mm", 40, 5).launches(kernel("forward", 600, 400))
    notices = found(builder.table())
    assert notices.keys() == {"communication"}
    assert saving(notices["communication"]) == (0, whole(100))


def late(bare: int = 200) -> TraceBuilder:
    """A backward pass of 400 us, after which two collectives reduce for 200 us of a step of 1000 us."""
    builder = backward(backward(training(), 20, 200, 300), 40, 200, 500)
    half = bare / 2
    waits(waits(builder, 20, 60, 700), 7, 100, 700 + bare)
    reduce(builder, 60, nccl(half, 700, 20), hooked=False)
    reduce(builder, 80, nccl(half, 700 + half, 20), hooked=False)
    return builder.op("aten::adam", 100, 10).launches(kernel("adam", 300 - bare, 700 + bare))


def test_what_is_reduced_after_the_backward_pass_could_run_beneath_it() -> None:
    """Half of the gradients are there after 200 us of it: the first collective hides, the last one does not."""
    notices = found(late().table())
    assert notices.keys() == {"communication"}
    assert saving(notices["communication"]) == (100, whole(200))
    assert figures(notices["communication"]) == {
        "communication_exposed": 0.2, "communication_ns": 200_000, "step_time_mean_ns": 1_000_000, "could_hide_ns": 800_000,
        "message_bytes": 4096, "message_rate": 4.096e7,
    }  # fmt: skip


def test_a_twentieth_of_the_step_is_no_finding() -> None:
    assert found(late(50).table()) == {}
    assert found(late(52).table()).keys() == {"communication"}


def test_no_more_is_hidden_than_there_is_to_hide_it() -> None:
    """600 us of a step of 700 us: 100 us are left to hide them."""
    builder = trace().step(1, 0, 50).op("aten::mm", 0, 10).launches(kernel("forward", 100, 0))
    waits(builder, 20, 20, 100).op("c10d::allgather_", 20, 5).launches(nccl(600, 100, 20, "AllGather"))
    (notice,) = found(builder.table()).values()
    assert saving(notice) == (0, whole(100))


def test_the_process_group_that_takes_most_is_named() -> None:
    builder = late()
    reduce(builder, 120, nccl(60, 1000, 20, group="tensor"), hooked=False)
    values = figures(found(builder.table())["communication"])
    assert (values["process_group"], values["group_exposed_ns"]) == ("0", 200_000)


def small(count: int) -> TraceBuilder:
    """So many all-reduces of 4 KiB and 10 us each, one by one after a backward pass of 400 us."""
    builder = backward(training(), 12, 400, 300)
    waits(waits(builder, 20, 20, 700), 7, 190, 700 + 10 * count)
    for i in range(count):
        reduce(builder, 20 + 4 * i, nccl(10, 700 + 10 * i, 20))
    return builder.op("aten::adam", 190, 5).launches(kernel("adam", 100, 700 + 10 * count))


def test_many_small_collectives_go_in_one() -> None:
    """The bucket takes 300 us less 29 times what each takes beside 4 KiB at 10 GB/s: 9.59 us."""
    notices = found(small(30).table())
    assert notices.keys() == {"small_collectives"}
    assert saving(notices["small_collectives"]) == (29 * 9.59, whole(300))
    assert figures(notices["small_collectives"]) == {
        "small_collectives": 30, "small_buckets": 1, "small_mean_bytes": 4096, "collective_latency_ns": 10_000
    }  # fmt: skip


def test_ten_less_are_worth_a_word() -> None:
    assert found(small(11).table()).keys() == {"small_collectives"}
    assert found(small(10).table()).keys() == {"communication"}


def test_no_collective_of_data_parallel_is_one_to_hide() -> None:
    """Two devices: 100 us in which weights go between them, and 20 us of inputs, while none computes."""
    builder = training().annotation("DataParallel.forward", 12, 50)
    builder.op("Scatter", 14, 2).launches(memcpy(20, 300, "Memcpy PtoP (Device -> Device)"))
    builder.op("Broadcast", 20, 5).launches(nccl(100, 320, 7, "Broadcast"))
    table = builder.op("aten::mm", 40, 5).launches(kernel("forward", 300, 420, device=1)).table()
    notices = found(table)
    assert notices.keys() == {"data_parallel", "low_utilization"}
    assert notices["data_parallel"].saving is None
    assert figures(notices["data_parallel"]) == {"affected": 2, "exchange_ns": 120_000}


@pytest.mark.parametrize("builder", [serial(), late(), small(30)])
def test_the_order_of_events_changes_nothing(builder: TraceBuilder) -> None:
    before = found(builder.table())
    random.Random(1).shuffle(builder.events)
    after = found(builder.table())
    assert after.keys() == before.keys()
    assert [saving(notice) for notice in after.values()] == [saving(notice) for notice in before.values()]


def test_without_recorded_compute_nothing_can_overlap() -> None:
    """A step of the CPU with only a collective: its other time is not known to be work."""
    notice = found(trace().step(1, 0, 200).annotation("gloo:all_reduce", 20, 150, tid=2).table())["communication"]
    assert notice.saving is None and "could_hide_ns" not in figures(notice)
    assert "No compute is recorded that could overlap with it." in notice.text


def test_without_steps_devices_or_names_nothing_breaks() -> None:
    assert found(trace().op("c10d::allreduce_", 0, 10).table()).keys() <= {"communication"}
    assert found(trace().table()) == {}


def test_what_nothing_hides_is_told_where_no_launch_is_recorded() -> None:
    """400 of 1000 us: loud, but nobody knows what the step waits for."""
    builder = trace().step(1, 0, 1000).op("aten::mm", 0, 10)
    builder.on_device(kernel("forward", 500, 0)).on_device(nccl(400, 500, 20))
    notice = found(builder.table())["communication"]
    assert (notice.saving, notice.severity) == (None, "high") and "is unknown" in notice.why
    # With launches the step is run again, and nothing of it waited for this collective.
    assert "communication" not in found(builder.op("aten::mm", 20, 5).launches(kernel("forward", 50, 900)).table())
