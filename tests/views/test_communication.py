"""Exposed communication: one number on both pages, for kernels and for process groups on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.communication import SMALL_BYTES, SmallMessages, small_messages
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notice, Notices, View
from tb_plugin.views.distributed.view import Distributed
from tests.builders import HOST, TraceBuilder, figures, kernel, memcpy, part, rows, trace
from tests.conftest import SHARED, UNLIKE, loaded, needs_shared, sample

REAL = [
    "hta/nccl_parser_config/nccl_data.json.gz",
    "hta/trace_filter/sampled_rank-0.json.gz",
    "hta/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "torch213/ddp_gloo2/rank0.1795194317735665389.pt.trace.json.gz",
]


def exposed(table: TraceTable) -> list[int]:
    """Nanoseconds of each step, on which the Overview and Distributed agree."""
    found = [row["communication_ns"] for row in rows(table, "overview", "steps")]
    assert found == [row["exposed_communication_ns"] for row in rows(table, "distributed", "steps")]
    return found


@pytest.mark.parametrize("name", UNLIKE)
def test_overview_and_distributed_agree(name: str) -> None:
    pages_agree(sample(name))


@needs_shared
@pytest.mark.parametrize("name", REAL)
def test_overview_and_distributed_agree_on_recordings(name: str) -> None:
    pages_agree(loaded(f"{SHARED.name}/data/{name}"))


def pages_agree(table: TraceTable) -> None:
    for step in rows(table, "distributed", "steps"):
        assert step["compute_ns"] + step["exposed_communication_ns"] + step["step_other_ns"] == step["step_total_ns"]
        assert min(step["compute_alone_ns"], step["step_other_ns"]) >= 0
    exposed(table)


def micros(builder: TraceBuilder) -> tuple[int, int, int]:
    """Of the only step: communication, CPU and other in microseconds."""
    table = builder.table()
    (row,) = rows(table, "overview", "steps")
    assert sum(v for k, v in row.items() if k not in ("step", "total_ns")) == row["total_ns"]
    (alone,) = exposed(table)
    assert alone == row["communication_ns"]
    return alone // 1000, row["cpu_ns"] // 1000, row["other_ns"] // 1000


def gloo() -> TraceBuilder:
    """A call [100, 110) on the training thread; the process group works from 110 to 300 on a thread of its own."""
    return trace().step(1, 0, 400).op("c10d::allreduce_", 100, 10).annotation("gloo:all_reduce", 110, 190, tid=9)


def gloo_of(elements: int) -> TraceBuilder:
    inputs = {"Input Dims": [[elements]], "Input type": ["float"]}
    builder = trace().step(1, 0, 400).op("MmBackward0", 0, 90)
    return builder.op("c10d::allreduce_", 100, 10).event(
        "user_annotation", "gloo:all_reduce", 110, 190, HOST, 9, **inputs
    )


def test_computation_on_the_host_hides_what_the_process_group_does_meanwhile() -> None:
    assert micros(gloo()) == (190, 10, 200)
    assert micros(gloo().op("aten::mm", 200, 150)) == (90, 160, 150)


def test_an_annotation_is_no_computation() -> None:
    """Whoever waits may have one open: the forward pass that synchronises buffers, a range of the user."""
    assert micros(gloo().annotation("train", 0, 400)) == (190, 210, 0)


def test_an_operator_that_calls_a_collective_computes_but_for_the_call() -> None:
    builder = trace().step(1, 0, 400).op("AccumulateGrad", 90, 60).op("c10d::allreduce_", 100, 40)
    assert micros(builder.op("record_param_comms", 105, 30)) == (40, 20, 340)
    assert micros(builder.annotation("gloo:all_reduce", 95, 105, tid=9)) == (90, 20, 290)


def test_what_belongs_to_a_collective_hides_nothing() -> None:
    assert micros(gloo().op("aten::copy_", 120, 100, tid=9)) == (190, 10, 200)


def test_where_a_collective_ran_as_a_kernel_its_host_calls_are_the_host_s() -> None:
    builder = trace().step(1, 0, 400).op("c10d::allreduce_", 100, 50)
    builder.launches(kernel("ncclDevKernel_AllReduce", 80, 200, stream=20), at=110)
    assert micros(builder) == (80, 50, 270)
    assert micros(builder.op("aten::add", 160, 5).launches(kernel("add", 100, 220))) == (20, 55, 225)


def test_copies_hide_communication_on_both_pages() -> None:
    builder = trace().step(1, 0, 400).op("c10d::allreduce_", 100, 50)
    builder.launches(kernel("ncclDevKernel_AllReduce", 80, 200, stream=20), at=110)
    assert micros(builder.launches(memcpy(30, 210, stream=9), at=120)) == (50, 50, 270)


def test_beside_kernels_only_process_groups_that_stay_on_the_host_communicate_there() -> None:
    builder = gloo().op("nccl:all_reduce", 320, 30).launches(kernel("ncclDevKernel_AllReduce", 20, 360, stream=20))
    assert micros(builder) == (210, 40, 150)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([(1000, 100_000)], SmallMessages(1000, 1e7)),
        ([(1000, 10_000)], None),
        ([(1000, 1000), (3_000_000, 3_000_000)], None),
        ([(1000, 100_000), (30_000_000, 100_000)], SmallMessages(1000, 1e7)),
        ([(SMALL_BYTES, 10**9)], SmallMessages(SMALL_BYTES, SMALL_BYTES)),
        ([(SMALL_BYTES + 1, 10**9)], None),
        ([(1000, 100_000), (-1, 100_001)], None),
        ([(0, 100_000)], SmallMessages(0, 0)),
        ([], None),
    ],
    ids=[
        "slow",
        "at full rate",
        "no slower than large",
        "slower than large",
        "largest",
        "large",
        "unknown",
        "empty",
        "none",
    ],
)
def test_messages_that_bandwidth_does_not_limit(calls: list[tuple[int, int]], expected: SmallMessages | None) -> None:
    size, time_ns = np.array(calls, np.int64).reshape(-1, 2).T
    assert small_messages(size, time_ns) == expected


def test_small_messages_are_merged_instead_of_compressed() -> None:
    """4000 bytes in 100 us on both ranks, and 16 bytes in 190 us of gloo."""
    found = notices(ranks([(100, 201)], [(101, 201)], elements=1000))["communication_transfer"]
    assert found.todo.startswith("Merge collectives")
    assert figures(found)["message_rate"] == pytest.approx(4e7)
    payload: Any = part(gloo_of(4).table(), "overview").payloads["findings"]
    (notice,) = [notice for notice in payload.notices if notice.rule == "communication"]
    assert notice.todo.startswith("Merge collectives") and "bucket_cap_mb" in notice.snippet
    assert figures(notice)["message_bytes"] == 16


def ranks(*calls: Sequence[tuple[int, int]], elements: int = 0) -> list[Part]:
    """Of each rank the begins and ends of all_reduce kernels in a step of 1000 us."""
    about = {"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float"}
    parts = []
    for rank, times in enumerate(calls):
        builder = trace().step(1, 0, 1000).op("c10d::allreduce_", 0, 1)
        for begin, end in times:
            work = kernel("ncclDevKernel_AllReduce", end - begin, begin, stream=20, **(about if elements else {}))
            builder.launches(work)
        parts.append(replace(Distributed().part(builder.table(), Params()), worker=f"rank{rank}"))
    return parts


def notices(parts: list[Part]) -> dict[str, Notice]:
    view = Distributed().answer(parts, Params())
    assert isinstance(view, View)
    found = view.payloads["findings"]
    assert isinstance(found, Notices)
    return {notice.rule: notice for notice in found.notices}


def test_a_rank_that_only_waits_for_a_straggler_is_not_told_to_send_less() -> None:
    """rank1 arrives last at all eight: rank0 waits 90 us each and both move data for 10."""
    ends = range(200, 1000, 100)
    found = notices(ranks([(end - 100, end) for end in ends], [(end - 10, end) for end in ends]))
    assert found.keys() == {"straggler"}
    assert "compress" not in found["straggler"].todo


def test_ranks_that_wait_for_each_other_are_told_so() -> None:
    found = notices(ranks([(100, 300), (690, 700)], [(290, 300), (500, 700)]))
    assert found.keys() == {"communication_waiting"}
    assert "compress" not in found["communication_waiting"].todo
    assert figures(found["communication_waiting"]) == {
        "worker": "rank0", "communication_exposed": 0.21, "wait_ns": 190_000, "transfer_ns": 20_000, "workers": 2
    }  # fmt: skip


def test_ranks_that_move_data_are_told_to_send_less() -> None:
    """Nobody waits for long: 100 of rank0's 101 us are transfer, of 1000 in all."""
    found = notices(ranks([(100, 201)], [(101, 201)]))
    assert found.keys() == {"communication_transfer"}
    assert "compress" in found["communication_transfer"].todo
    assert figures(found["communication_transfer"])["communication_exposed"] == 0.101


def test_one_profile_alone_cannot_tell_waiting_from_transfer() -> None:
    builder = trace().step(1, 0, 20).op("c10d::allreduce_", 0, 1)
    work = kernel("add", 800, 20), kernel("ncclDevKernel_AllReduce", 200, 820, stream=20)
    payload: Any = part(builder.launches(*work).table(), "overview").payloads["findings"]
    (notice,) = [notice for notice in payload.notices if notice.rule == "communication"]
    assert "The communication time includes waiting for late ranks" in notice.text
    assert "If most of it is waiting, fix the late rank." in notice.todo


def test_what_nobody_else_recorded_is_neither_waiting_nor_transfer() -> None:
    """Only one of the two recorded the call: nothing is known of it but that it took time."""
    other = replace(Distributed().part(trace().step(1, 0, 1000).table(), Params()), worker="rank1")
    assert notices([*ranks([(100, 300)]), other]).keys() == {"unmatched"}
