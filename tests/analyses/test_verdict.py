"""What limits a program: one trace for each limit, and its first finding."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analyses.rules import RULES
from tb_plugin.analyses.rules.savings import findings_of
from tb_plugin.analyses.rules.verdict import RULES_OF, Limit
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


def step() -> TraceBuilder:
    return trace().device(0).step(1, 0, 1000)


def test_a_gpu_that_is_busy_is_the_limit_and_its_kernels_are_named_by_class() -> None:
    """480, 200 and 120 of 800 us."""
    builder = trace().device(0).step(1, 0, 920)
    builder.op("aten::mul", 0, 10).launches(kernel("vectorized_elementwise_kernel", 480, 100), at=1)
    builder.op("aten::mm", 20, 10).launches(kernel("ampere_sgemm_128x64_tn", 200, 600), at=21)
    builder.op("aten::layer_norm", 40, 10).launches(kernel("vectorized_layer_norm_kernel", 120, 800), at=41)
    assert limit(builder) in (Limit.GPU, Limit.NOTHING)
    assert mix(builder) == "60 % elementwise and copy, 25 % GEMM, 15 % normalisation"


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


def test_the_first_finding_is_about_the_limit() -> None:
    """Loading 300 of 1,000 us: other findings may save more."""
    builder = step().annotation(LOADER, 0, 300).op("aten::mm", 300, 10).launches(kernel("gemm", 600, 400))
    found = findings_of(builder.table(), None)
    assert found.verdict is not None and found.verdict.limit is Limit.DATA_LOADING
    assert found.found[0].rule.id in RULES_OF[Limit.DATA_LOADING]


def test_limits_name_rules_that_there_are() -> None:
    known = {rule.id for rule in RULES} | {"idle_device"}
    assert all(rules <= known for rules in RULES_OF.values())
