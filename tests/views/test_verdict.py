"""What limits a program: one trace for each limit, and its first finding."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import Limit
from tb_plugin.rules._ordered_findings import findings_of
from tests.builders import TraceBuilder, kernel, memcpy, part, trace

LOADER = "enumerate(DataLoader)#X.__next__"


def limit(builder: TraceBuilder) -> Limit:
    verdict = findings_of(builder.table(), None).verdict
    assert verdict is not None
    return verdict.limit


def text(builder: TraceBuilder) -> str:
    payload: Any = part(builder.table(), "overview").payloads["largest_costs"]
    (only,) = payload.notices
    return str(only.text)


def mix(builder: TraceBuilder) -> str:
    payload: Any = part(builder.table(), "overview").payloads["largest_costs"]
    return str({f.metric.key: f.value for f in payload.notices[0].figures}["class_mix"])


def idle(table: TraceTable, cause: Cause) -> int:
    """Idle time of the first device, nanoseconds."""
    account = idle_account(table, 0)
    return int((account.end_ns - account.start_ns)[account.cause == cause].sum())


def step() -> TraceBuilder:
    return trace().device(0).step(1, 0, 1000)


def test_a_gpu_that_is_busy_is_the_limit_and_its_kernels_are_named_by_class() -> None:
    """480, 200 and 120 of 800 us."""
    builder = trace().device(0).step(1, 0, 920)
    builder.op("aten::mul", 0, 10).launches(kernel("vectorized_elementwise_kernel", 480, 100), at=1)
    builder.op("aten::mm", 20, 10).launches(kernel("ampere_sgemm_128x64_tn", 200, 600), at=21)
    builder.op("aten::layer_norm", 40, 10).launches(kernel("vectorized_layer_norm_kernel", 120, 800), at=41)
    assert limit(builder) in (Limit.GPU, Limit.NOTHING)
    assert mix(builder) == "60 % elementwise, 25 % GEMM, 15 % normalization"


@pytest.mark.parametrize(("length", "wanted"), [(800, Limit.CPU), (801, Limit.GPU)])
def test_from_a_fifth_on_idle_time_is_the_limit(length: int, wanted: Limit) -> None:
    idle = 1000 - length
    builder = step().op("aten::mm", 0, idle + 1).launches(kernel("gemm", length, idle), at=0)
    assert limit(builder) is wanted or (wanted is Limit.GPU and limit(builder) is Limit.NOTHING)


def test_copies_and_communication_without_kernels_at_once() -> None:
    copies = step().op("aten::to", 0, 10).launches(memcpy(400, 20), at=1, name="cudaMemcpyAsync")
    copies.op("aten::mm", 20, 10).launches(kernel("gemm", 500, 450))
    assert limit(copies) is Limit.COPIES
    sums = step().op("c10d::allreduce_", 0, 10).launches(kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 400, 20))
    sums.op("aten::mm", 20, 10).launches(kernel("gemm", 500, 450))
    assert limit(sums) is Limit.COMMUNICATION


def test_launches_without_kernels_are_a_recording_without_gpu_work() -> None:
    builder = trace().step(1, 0, 1000).op("aten::mm", 0, 900).launches(at=10, dur=5)
    assert limit(builder) is Limit.GPU_NOT_RECORDED
    assert "CPU-only" not in text(builder)


def test_without_gpu_the_program_is_said_to_run_on_the_cpu() -> None:
    builder = trace().step(1, 0, 1000).op("aten::mm", 0, 900)
    assert limit(builder) is Limit.CPU_ONLY
    assert text(builder).startswith("CPU-only program") and "GPU" not in text(builder)


def test_kernels_without_any_launch_do_not_blame_the_cpu() -> None:
    builder = trace().device(0).on_device(kernel("gemm", 100, 0)).on_device(kernel("gemm", 100, 900))
    assert limit(builder) is Limit.CPU_NOT_RECORDED


SECOND = 1_000_000


def context(dur: int) -> TraceBuilder:
    """A call that creates the context within an operator, before the only kernel (cases/context_creation)."""
    builder = trace().op("aten::empty", 100, dur + 10).call(105, dur, name="cudaDeviceGetStreamPriorityRange")
    builder.op("aten::add", dur + 200, 30).launches(kernel("k", 40, dur + 240), at=dur + 205, dur=10)
    return builder.op("aten::add", dur + 300, 30).launches(kernel("k", 40, dur + 340), at=dur + 305, dur=10)


def test_the_creation_of_a_context_is_initialisation_and_no_overhead() -> None:
    found = findings_of(context(20 * SECOND).table(), None)
    assert found.verdict is not None and found.verdict.limit is Limit.INITIALISATION
    assert found.verdict.part_ns == 20 * SECOND * 1000
    assert [each.rule.id for each in found.all] == ["low_utilization"]
    told = text(context(20 * SECOND))
    assert told.startswith("Initialization") and "steady state" in told and "CPU overhead" not in told


def test_a_short_call_of_the_runtime_is_overhead() -> None:
    assert limit(context(300)) is Limit.CPU


def test_initialisation_beside_more_overhead_is_not_the_limit() -> None:
    """20 s of context and 40 s of an operator."""
    assert limit(context(20 * SECOND).op("aten::nonsense", 20 * SECOND + 400, 40 * SECOND)) is Limit.CPU


def captured(dur: int, eager: int = 0) -> TraceBuilder:
    """A graph of 20 launches is captured for so long, with Dynamo's clock around it, and kernels before it."""
    builder = trace().device(0).op("first", 0, 20).launches(kernel("k", 10, 20), at=2, dur=5)
    builder.op("CUDAGraphNode.record (dynamo_timed)", 100, dur + 20)
    builder.call(102, 3, name="cudaStreamBeginCapture").call(105 + dur, 3, name="cudaStreamEndCapture")
    for i in range(20):
        builder.launches(at=105 + i * dur // 20, dur=2)
    for i in range(eager):
        builder.op("aten::mm", dur + 200 + 20 * i, 10).launches(at=dur + 201 + 20 * i, dur=5)
    return builder


def test_a_capture_is_neither_compilation_nor_missing_work() -> None:
    table = captured(5000).table()
    found = findings_of(table, None)
    assert found.verdict is not None and found.verdict.limit is Limit.CAPTURE
    assert found.verdict.part_ns == 5000 * 1000
    assert idle(table, Cause.CAPTURE) == 5000 * 1000
    assert idle(table, Cause.COMPILATION) < 50 * 1000
    first = found.all[0]
    assert first.rule.id == "low_utilization" and "idle_cause" in first.notice.text
    assert {f.metric.key: f.value for f in first.notice.figures}["idle_cause"] == "Graph capture"


def test_launches_outside_of_a_capture_are_missing_work_still() -> None:
    """Of 31 launches 20 are captured, and 10 of the other 11 have no kernel."""
    assert limit(captured(50, eager=10)) is Limit.GPU_NOT_RECORDED


def bare(host: bool = False) -> TraceBuilder:
    """Launches and kernels without operators: the device idles for 900 of 1,000 us."""
    builder = trace().device(0).call(0, 10, corr=1, name="hipLaunchKernel").on_device(kernel("gemm", 50, 20), corr=1)
    builder.call(930, 10, corr=2, name="hipLaunchKernel").on_device(kernel("gemm", 50, 950), corr=2)
    return builder.annotation("forward", 200, 50) if host else builder


def test_what_was_not_recorded_is_no_cause() -> None:
    table = bare().table()
    assert idle(table, Cause.PYTHON) == 0 and idle(table, Cause.NOT_RECORDED) > 800_000
    assert limit(bare()) is Limit.CPU_NOT_RECORDED
    assert "Python" not in text(bare())
    assert all("Python" not in str(notice.figures) for notice in findings_of(table, None).notices)
    assert idle(bare(host=True).table(), Cause.PYTHON) > 800_000
    assert limit(bare(host=True)) is Limit.CPU


def test_a_thread_of_which_only_calls_are_recorded_is_not_said_to_be_in_python() -> None:
    """Operators are recorded on another thread, which launches nothing."""
    builder = bare().op("aten::cpu_work", 0, 1000, tid=2)
    assert idle(builder.table(), Cause.PYTHON) == 0 and idle(builder.table(), Cause.NOT_RECORDED) > 800_000
    assert limit(builder) is Limit.CPU_NOT_RECORDED


def test_a_cause_stands_before_a_small_saving() -> None:
    """The device idles for 900 of 1,000 us in Python, of which no rule speaks with so few launches; a wait takes 20 us."""
    builder = step().op("aten::mm", 0, 20).launches(kernel("gemm", 50, 20), at=5, dur=5)
    builder.call(60, 20, name="cudaStreamSynchronize")
    builder.op("aten::mm", 920, 20).launches(kernel("gemm", 50, 950), at=925, dur=5)
    builder.call(975, 25, name="cudaDeviceSynchronize")
    found = findings_of(builder.table(), None).all
    assert [each.rule.id for each in found] == ["low_utilization", "synchronising_calls"]


def test_a_recording_that_started_late_says_so_first() -> None:
    """A kernel that was launched at 0 begins after 30 ms of 50, the later ones at once."""
    builder = trace().step(1, 0, 50_000).op("aten::mm", 0, 20).launches(kernel("gemm", 5000, 30_000), at=5, dur=5)
    for at in (36_000, 42_000):
        builder.op("aten::mm", at, 20).launches(kernel("gemm", 5000, at + 20), at=at + 5, dur=5)
    found = findings_of(builder.table(), None)
    assert found.verdict is not None and found.verdict.limit is Limit.STARTED_LATE
    assert found.all[0].rule.id == "started_late"


def many(kept: int, *, ids: int = 1, kernels: bool = True) -> TraceBuilder:
    """200 operators of 5 us that launch kernels of 1 us; of each ``kept`` the first is recorded, or its kernel."""
    builder = trace().device(0).step(1, 0, 1000)
    for i in range(200):
        if kernels and i % kept:
            continue
        builder.op("aten::mul", 5 * i, 4, ext=1 + ids * i)
        builder.launches(*[kernel("gemm", 1, 5 * i + 3)] * (kernels or i % kept == 0), at=5 * i + 1, dur=1)
    return builder


def test_operators_that_were_filtered_out_are_told() -> None:
    """100 of 199 numbers."""
    assert limit(many(1)) is Limit.CPU
    assert limit(many(2)) is Limit.RECORDING
    assert text(many(2)) == (
        "The recording contains only {sampled_share} of the operators, so what limits the program is unknown. Open the "
        "complete recording: this file lacks most operators."
    )
    found = findings_of(many(2).table(), None)
    assert found.verdict is not None and found.verdict.recorded == pytest.approx(100 / 199)
    assert not {each.rule.id for each in found.all} & {
        "launch_bound",
        "low_utilization",
        "idle_device",
        "python_bound",
    }


def test_gaps_between_blocks_of_ids_are_no_filter() -> None:
    """Each thread takes its ids from a block of its own."""
    builder = many(1)
    for i, event in enumerate(each for each in builder.events if each["name"] == "aten::mul"):
        event["args"]["External id"] = i + 1024 * (i // 50)
    assert limit(builder) is Limit.CPU


@pytest.mark.parametrize(("kept", "wanted"), [(1, Limit.CPU), (2, Limit.GPU_NOT_RECORDED), (4, Limit.GPU_NOT_RECORDED)])
def test_kernels_that_were_filtered_out_are_told(kept: int, wanted: Limit) -> None:
    builder = many(kept, kernels=False)
    assert limit(builder) is wanted
    verdict = findings_of(builder.table(), None).verdict
    assert verdict is not None and verdict.recorded == (1 if wanted is Limit.CPU else 1 / kept)


def test_kernels_that_ran_after_the_recording_are_no_filter() -> None:
    """The last 40 of 240 launches have no kernel: they were queued when the recording ended."""
    builder = many(1)
    for i in range(40):
        builder.op("aten::mul", 1000 + i, 0.9, ext=1000 + i).launches(at=1000 + i, dur=0.5)
    assert limit(builder) is Limit.CPU


def test_launches_into_a_graph_are_no_filter() -> None:
    builder = many(1)
    at = 1000.0
    builder.op("capture", at, 100, ext=900).call(at + 1, 1, corr=7001, name="cudaStreamBeginCapture_v10000")
    for i in range(80):
        builder.launches(at=at + 3 + i / 2, dur=0.2)
    builder.call(at + 60, 1, corr=7002, name="cudaStreamEndCapture_v10000")
    builder.op("aten::mul", 1200, 4, ext=1300).launches(kernel("gemm", 1, 1203), at=1201, dur=1)
    assert limit(builder) is Limit.CPU


def test_kernels_of_unknown_kinds_are_not_praised() -> None:
    builder = step().op("my::op", 0, 10).launches(kernel("own_kernel", 500, 20), at=0)
    builder.op("aten::mm", 20, 10).launches(kernel("ampere_sgemm_128x64_tn", 450, 520), at=21)
    assert limit(builder) is Limit.UNKNOWN_KERNELS
    assert text(builder).endswith(
        "No check covers {unknown_share} of the kernel time: these kernels are of unknown type."
    )
    assert "{largest_share}), mostly {largest_name}" in text(builder)
    assert mix(builder) == "53 % unknown, 47 % GEMM"
    few = step().op("my::op", 0, 10).launches(kernel("own_kernel", 400, 20), at=0)
    few.op("aten::mm", 20, 10).launches(kernel("ampere_sgemm_128x64_tn", 550, 420), at=21)
    assert limit(few) in (Limit.GPU, Limit.NOTHING)


def test_the_first_finding_is_about_the_limit() -> None:
    """Loading 300 of 1,000 us: other findings may save more."""
    builder = step().annotation(LOADER, 0, 300).op("aten::mm", 300, 10).launches(kernel("gemm", 600, 400))
    found = findings_of(builder.table(), None)
    assert found.verdict is not None and found.verdict.limit is Limit.DATA_LOADING
    assert found.all[0].rule.limits == (Limit.DATA_LOADING,)


def test_an_empty_recording_says_that_nothing_is_known() -> None:
    builder = trace()
    window = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler"}
    builder.events.append({**window, "ts": 0, "dur": 1000, "args": {"Op count": 0}})
    assert limit(builder) is Limit.CPU_NOT_RECORDED
    assert text(builder).startswith("The recording contains no operators and no device work")
    assert limit(builder.op("aten::mm", 10, 900)) is Limit.CPU_ONLY
