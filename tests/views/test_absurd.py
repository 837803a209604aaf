"""Numbers that no machine has: what cannot be summed is set aside and told, and no view trips over the rest."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads.export import to_json
from tests.builders import model, part, rows
from tests.samples import OF_TRACES

HUGE = 2**62


def event(name: str, ts: int, dur: Any = 10, cat: str = "cpu_op", **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur} | more


def memory(ts: int, size: int, address: int, total: int = 0) -> dict[str, Any]:
    args = {"Bytes": size, "Addr": address, "Device Type": 1, "Device Id": 0, "Total Allocated": total}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": args}


def read(*events: dict[str, Any], **head: Any) -> TraceTable:
    return model(json.dumps({**head, "traceEvents": list(events)}).encode())


def answered(table: TraceTable) -> None:
    """Every view answers, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for analysis in OF_TRACES:
            answer = analysis.answer([analysis.part(table, Params())], Params())
            json.loads(to_json(answer), parse_constant=pytest.fail)


def told(table: TraceTable) -> dict[str, int]:
    return {issue.code: issue.count for issue in table.report.issues if issue.outcome == "quarantined"}


def test_two_allocations_of_half_of_all_there_is_are_set_aside() -> None:
    """Their sum is 2^63, one more than 64 bits hold."""
    table = read(event("aten::empty", 0), memory(1, HUGE, 7), memory(2, HUGE, 8), memory(3, 512, 9, 512))
    assert told(table) == {"impossible_size": 2}
    assert table.report.events_quarantined == 2
    assert part(table, "memory").facts["memory.cuda:0.allocations"] == 1
    answered(table)


def test_totals_that_cannot_be_are_not_recorded() -> None:
    table = read(event("aten::empty", 0), memory(1, 512, 7, 2**63 - 1), memory(2, 512, 8, 1024))
    assert told(table) == {"impossible_size": 1}
    assert table.memory.total_allocated.tolist() == [-1, 1024]
    answered(table)


def test_memory_of_another_century_is_set_aside() -> None:
    table = read(event("aten::empty", 0), memory(1, 512, 7, 512), memory(3 * 2**61 // 1000, 512, 8, 1024))
    assert told(table) == {"impossible_time": 1}
    answered(table)


def test_durations_that_do_not_sum_up_are_set_aside() -> None:
    years = 2**62 // 1000 - 1
    table = read(*(event("a", i, years) for i in range(4)), event("b", 0))
    assert told(table) == {"impossible_time": 4}
    assert rows(table, "operators", "operators")[0]["name"] == "b"
    answered(table)


@pytest.mark.parametrize("number", [2**62, 2**63 - 1, -(2**63), 1e308, -1e308, 5e-324, 2**31])
def test_absurd_arguments(number: float) -> None:
    device = {"device": 0, "stream": 7}
    kernel = {"blocks per SM": number, "warps per SM": number, "est. achieved occupancy %": number, "bytes": number,
              "registers per thread": number, "shared memory": number, "grid": [number] * 3, "queued": number,
              "memory bandwidth (GB/s)": number}  # fmt: skip
    collective = {"Collective name": "allreduce", "In msg nelems": number, "Out msg nelems": number, "dtype": "Float",
                  "Group size": number, "Process Group Ranks": "[0, 1]", "Seq": number}  # fmt: skip
    size = int(min(max(number, -(2**63)), 2**63 - 1))
    launches = [
        event(f"c{i}", 2 + i, 1, "cuda_runtime", args={"correlation": i, "External id": 1}) for i in (1, 2, 3, 4)
    ]
    work = [("gemm", "kernel", 20, 1), ("gemm", "kernel", 21, 2), ("Memcpy HtoD", "gpu_memcpy", 40, 3),
            ("Memcpy HtoD", "gpu_memcpy", 41, 4), ("ncclDevKernel_AllReduce", "kernel", 60, 5),
            ("ncclDevKernel_AllReduce", "kernel", 65, 6)]  # fmt: skip
    table = read(
        event("ProfilerStep#1", 0, 100, "user_annotation"),
        event("aten::mm", 1, 5, args={"Input Dims": [[number, number]], "External id": 1}),
        *launches,
        *(
            event(name, ts, 5, cat, tid=7, pid=0, args=kernel | device | (collective if i > 4 else {}) | {"correlation": i})
            for name, cat, ts, i in work
        ),
        memory(70, size, 7, size),
        memory(71, 512, 8, 512),
        {"ph": "C", "name": "count", "pid": 1, "ts": 5, "args": {"a": number, "b": 1}},
        {"ph": "C", "name": "count", "pid": 1, "ts": 15, "args": {"a": -number}},
        deviceProperties=[{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": number, "numSms": number, "computeMajor": 9,
                           "computeMinor": 0, "warpSize": number}],
        distributedInfo={"backend": "nccl", "rank": 0, "world_size": number},
    )  # fmt: skip
    answered(table)
