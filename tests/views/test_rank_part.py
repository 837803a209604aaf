"""What one rank contributes to Distributed: its calls, what came before each, and what it computed."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.analysis.base import Params
from tb_plugin.lib import model_cache
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.service.part_codec import dump
from tb_plugin.views.distributed.rank.profile import profile_part
from tb_plugin.views.distributed.rank.time_before_calls import PARTS
from tests.builders import TraceBuilder, kernel, memcpy, model, trace
from tests.conftest import SAMPLES, SHARED, needs_shared
from tests.depth import DEEP, examples
from tests.plain_calls import plain_before, plain_calls

Row = dict[str, Any]
Span = tuple[int, int]
GROUPED = next((SAMPLES / "synthetic_groups").glob("rank1.*"))
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def part_rows(table: TraceTable, name: str = "collectives") -> list[Row]:
    found: list[Row] = profile_part(table, Params()).frames[name].data.to_pylist()
    return found


NAMES = (
    "allreduce",
    "_allgather_base",
    "send",
    "recv",
    "broadcast",
    "barrier",
    "wait",
    "start_coalescing",
    "end_coalescing",
)
TEXTS = ("c10d::allreduce_", "c10d::send", "nccl:all_reduce", "gloo:broadcast", "nccl:coalesced", "record_param_comms",
         "aten::mm", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")  # fmt: skip
RANKS = ("[0, 1]", "[1, 0]", "[0, 1, 2]", "", "[", None)


@st.composite
def statements(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a collective, any of which may be missing."""
    if draw(st.integers(0, 3)) == 0:
        return {}
    return {
        "Collective name": draw(st.sampled_from(NAMES)),
        "dtype": draw(st.sampled_from(("Float", "BFloat16", None))),
        "In msg nelems": draw(st.sampled_from((0, 4, 1 << 50, None))),
        "Out msg nelems": draw(st.sampled_from((8, None))),
        "Group size": draw(st.sampled_from((2, None))),
        "Process Group Name": draw(st.sampled_from(("0", "1", None))),
        "Process Group Ranks": draw(st.sampled_from(RANKS)),
        "Seq": draw(st.sampled_from((1, 2, None))),
        "Dst Rank": draw(st.sampled_from((1, None))),
        "Src Rank": draw(st.sampled_from((2, None))),
    }


@st.composite
def workers(draw: st.DrawFn) -> TraceBuilder:
    """A worker's trace of a few dozen nanoseconds: host calls, kernels with and without a launch, copies, two steps."""
    builder = trace()
    builder.root["distributedInfo"] = {
        "rank": draw(st.integers(0, 1)),
        "pg_config": [{"pg_name": "0", "pg_size": draw(st.sampled_from((2, 3)))}, {"pg_name": "1", "pg_size": 2}],
    }
    for number in range(draw(st.integers(0, 2))):
        builder.step(number, 0.03 * number, 0.03)
    at = st.integers(0, 55).map(lambda ns: ns / 1000)
    long = st.integers(0, 14).map(lambda ns: ns / 1000)
    for number in range(draw(st.integers(1, 9))):
        name, begin, tid = draw(st.sampled_from(TEXTS)), draw(at), draw(st.integers(1, 2))
        shapes = draw(st.sampled_from(([[3]], [[3], [1 << 40, 1 << 40]], [[2, 2], [5]], [[-5]], None)))
        types = ["float", draw(st.sampled_from(("float", "long int", "Scalar")))]
        category = "user_annotation" if name.startswith(("nccl:", "gloo:", "enumerate")) else "cpu_op"
        more = draw(statements()) if name == "record_param_comms" else {}
        builder.op(
            name, begin, draw(long), number + 1, tid, shapes=shapes, category=category, **{"Input type": types, **more}
        )
        for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
            own = draw(statements()) if draw(st.booleans()) else {}
            which = draw(st.sampled_from((NCCL, NCCL, "gemm", "ncclDevKernel_SendRecv")))
            stream, at_ns = draw(st.integers(7, 8)), draw(at)
            work = kernel(which, draw(long), at_ns, stream=stream, **(own if which != "gemm" else {}))
            if draw(st.booleans()):
                builder.launches(work, at=begin)
            else:
                builder.on_device(work, ext=draw(st.sampled_from((number + 1, None))))
    if draw(st.booleans()):
        builder.on_device(memcpy(draw(long), draw(at)))
    return builder


@st.composite
def batched(draw: st.DrawFn) -> TraceBuilder:
    """Calls one after the other on two threads: some launch, some do not, some close a batch or await a number."""
    builder = trace()
    kinds = st.sampled_from(("silent", "silent", "launches", "closes", "ends", "wait"))
    calls = draw(st.lists(st.tuples(kinds, st.integers(1, 2), st.integers(1, 3), st.booleans()), max_size=12))
    for place, (kind, tid, sequence, plain) in enumerate(calls):
        begin = place * 0.004
        stated: Any = {
            "Process Group Name": draw(st.sampled_from("01")),
            "Seq": sequence,
            "dtype": "Float",
            "In msg nelems": 4,
        }
        stated["Collective name"] = (
            draw(st.sampled_from(("allreduce", "send", "allreduce"))) if kind != "wait" else "wait"
        )
        if kind == "closes":
            builder.annotation("nccl:coalesced", begin, draw(st.sampled_from((0.003, 0.02))), place + 1, tid)
        elif plain and kind == "silent":
            builder.op("c10d::send", begin, 0.002, place + 1, tid)
        else:
            stated["Collective name"] = "end_coalescing" if kind == "ends" else stated["Collective name"]
            builder.op("record_param_comms", begin, 0.002, place + 1, tid, **stated)
        for _ in range({"silent": 0, "wait": 0}.get(kind, draw(st.sampled_from((1, 1, 2, 0))))):
            own = stated if plain and kind != "ends" else {}
            builder.on_device(kernel(NCCL, 0.003, draw(st.integers(0, 60)) / 1000, **own), ext=place + 1)
    return builder


@given(st.one_of(workers(), batched()))
@examples(25, 3000)
def test_a_plain_recount(builder: TraceBuilder) -> None:
    """Call by call and nanosecond by nanosecond."""
    table = builder.table()
    rows, expected = part_rows(table), plain_calls(table)
    assert [{key: row[key] for key in one} for row, one in zip(rows, expected, strict=True)] == expected
    assert [[row[key] for key in ("before_ns", *PARTS)] for row in rows] == plain_before(table, expected)


def test_launches() -> None:
    """The launch of the kernel; of a kernel without one the operator that its number names."""
    builder = trace().step(0, 0, 300)
    said = {"Collective name": "allreduce", "Process Group Name": "0", "dtype": "Float", "In msg nelems": 4}
    builder.op("c10d::allreduce_", 10, 20, 1).op("record_param_comms", 12, 15, 2, **said, Seq=1)
    builder.launches(kernel(NCCL, 30, 40, stream=20, **said, Seq=1), at=14, dur=3)
    builder.op("record_param_comms", 50, 5, 3, **said, Seq=2).on_device(kernel(NCCL, 10, 80, stream=20), ext=3)
    builder.on_device(kernel(NCCL, 5, 100, stream=20, **said, Seq=3))
    rows = part_rows(builder.table())
    assert [(row["sequence"], row["issued_ns"]) for row in rows] == [(1, 14_000), (2, 50_000), (3, None)]
    assert {row["stream"] for row in rows} == {"GPU 0, stream 20 (communication 0)"}
    table = builder.table()
    assert [table.start_ns[row["event"]] for row in rows] == [40_000, 80_000, 100_000]


def test_a_batch_is_carried_out_by_one_kernel() -> None:
    """Two sends and a receive, then the range that closes the batch; an own call before, and one after."""

    def calls(kind: str, at: int, **more: Any) -> dict[str, Any]:
        return {"Collective name": kind, "Process Group Name": "pp", "dtype": "Half", "In msg nelems": at, **more}

    builder = trace().step(0, 0, 300)
    builder.root["distributedInfo"] = {"rank": 4, "world_size": 8}
    builder.op("record_param_comms", 5, 5, 1, **calls("send", 5, **{"Dst Rank": 5})).on_device(
        kernel(NCCL, 5, 20), ext=1
    )
    for at, kind, end in ((30, "send", {"Dst Rank": 5}), (40, "send", {"Dst Rank": 3}), (50, "recv", {"Src Rank": 3})):
        builder.op("c10d::send", at, 5, at).op("record_param_comms", at + 1, 3, at + 1, **calls(kind, at, **end))
    builder.annotation("nccl:coalesced", 60, 200, 60).on_device(kernel("ncclDevKernel_SendRecv", 40, 100), ext=60)
    builder.op("record_param_comms", 80, 5, 80, **calls("allreduce", 80)).on_device(kernel(NCCL, 5, 150), ext=80)
    rows = part_rows(builder.table())
    keys = ("collective", "source_rank", "destination_rank", "elements", "start_ns", "batch", "issued_ns", "before_ns")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("send", 4, 5, 5, 20_000, None, 5_000, 20_000),
        ("send", 4, 5, 30, 100_000, 0, 60_000, 75_000),
        ("send", 4, 3, 40, 100_000, 0, 60_000, 75_000),
        ("recv", 3, 4, 50, 100_000, 0, 60_000, 75_000),
        ("all_reduce", None, None, 80, 150_000, None, 80_000, 10_000),
    ]
    assert [row["comm_bytes"] for row in rows] == [10, 60, 80, 100, 160]
    assert len({row["event"] for row in rows[1:4]}) == 1


def test_what_came_before() -> None:
    """Of each part some, by priority; a call of another group is communication, one of the own group begins anew."""
    said = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 4}
    builder = trace().step(7, 0, 400)
    builder.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 50)
    builder.op("aten::mm", 60, 10, 1).launches(kernel("gemm", 40, 80), dur=5)
    builder.launches(memcpy(40, 100, stream=9), at=66)  # 20 of it beside the kernel
    other_group = kernel(NCCL, 20, 130, stream=20, **said, **{"Process Group Name": "other"})  # 10 beside the copy
    builder.launches(other_group, at=67)
    builder.op("record_param_comms", 150, 10, 2, **said).launches(
        kernel(NCCL, 30, 200, stream=21, **said), at=155, dur=2
    )
    builder.op("record_param_comms", 170, 10, 3, **said).launches(kernel(NCCL, 30, 240, stream=21, **said))
    other, first, second = part_rows(builder.table())
    assert (other["group"], other["before_ns"]) == ("other", 130_000)
    assert {key: first[key] // 1000 for key in ("before_ns", *PARTS)} == {
        "before_ns": 200, "before_compute_ns": 40, "before_communication_ns": 20, "before_copy_ns": 10,
        "before_input_ns": 50, "before_host_ns": 22, "before_idle_ns": 58,
    }  # fmt: skip
    assert second["before_ns"] == 10_000 == sum(second[key] for key in PARTS)


def test_time_by_kernel() -> None:
    """By step, the largest first; 64 of each step and one row for all others; without kernels what operators took."""
    builder = trace().step(1, 0, 1000).step(2, 1000, 1000).step(3, 2000, 10)
    for number in range(70):
        builder.op("aten::mm", number, 1).launches(kernel(f"k{number:02}", number + 1, 100 + 10 * number))
    builder.op("aten::mm", 1001, 1).launches(kernel("k00", 3, 1010))
    builder.op("aten::mm", 2001, 1).launches(kernel("k01", 5, 2004), kernel(NCCL, 900, 2020, stream=20))
    rows = part_rows(builder.table(), "kernels")
    assert len(rows) == 67 and [row["step"] for row in rows].count("1") == 65
    assert (rows[0]["kernel"], rows[0]["kernel_ns"], rows[0]["kernel_calls"]) == ("k69", 70_000, 1)
    assert (rows[64]["kernel"], rows[64]["kernel_ns"], rows[64]["kernel_calls"]) == ("", sum(range(1, 7)) * 1000, 6)
    assert [(row["step"], row["kernel"], row["kernel_ns"]) for row in rows[65:]] == [
        ("2", "k00", 3_000),
        ("3", "k01", 5_000),
    ]
    host = trace().step(1, 0, 100).op("aten::linear", 10, 50).op("aten::mm", 20, 30).op("aten::mm", 70, 5)
    found = [(row["kernel"], row["kernel_calls"], row["kernel_ns"]) for row in part_rows(host.table(), "kernels")]
    assert found == [("aten::mm", 2, 35_000), ("aten::linear", 1, 20_000)]


@pytest.mark.parametrize(("base", "expected"), [(1_700_000_000 * 10**9, 1_700_000_000_000_010_000), (None, None)])
def test_rank_and_clock(base: int | None, expected: int | None) -> None:
    builder = trace().op("aten::mm", 10, 5)
    builder.root |= {"distributedInfo": {"rank": 3, "world_size": 8}}
    builder.root |= {} if base is None else {"baseTimeNanoseconds": base}
    facts = profile_part(builder.table(), Params()).facts
    assert (facts["distributed.rank"], facts["distributed.base_time_ns"]) == (3, expected)


# Recorded and invented files, recounted from their text


def merged(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        elif start < end:
            found.append((start, end))
    return found


def within(spans: Sequence[Span], start: int, end: int) -> int:
    return sum(max(0, min(b, end) - max(a, start)) for a, b in spans)


@pytest.mark.parametrize(
    ("path", "talks"),
    [
        pytest.param(SHARED / "data/hta/trace_filter/sampled_rank-0.json.gz", "nccl", marks=needs_shared),
        pytest.param(SHARED / "data/hta/trace_filter/sampled_rank-1.json.gz", "nccl", marks=needs_shared),
        (GROUPED, "nccl"),
    ],
    ids=["recorded 0", "recorded 1", "invented"],
)
def test_a_file_recounted(path: Path, talks: str) -> None:
    """Its calls are its communication kernels; each was issued by the call with its number; parts by two unions."""
    table, text = model(path), gzip.decompress(path.read_bytes())
    events = [e for e in json.loads(text, parse_float=Decimal)["traceEvents"] if e.get("ph") == "X"]
    origin = table.origin_ns

    def span(event: dict[str, Any]) -> Span:
        start = int(Decimal(event["ts"]) * 1000) - origin
        return start, start + int(Decimal(event["dur"]) * 1000)

    kernels = [e for e in events if e.get("cat") == "kernel"]
    own = sorted((e for e in kernels if talks in e["name"].lower()), key=lambda e: (span(e)[0], -span(e)[1]))
    computing = merged(span(e) for e in kernels if talks not in e["name"].lower())
    busy = merged(span(e) for e in kernels)
    numbered = {
        e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime" and "correlation" in e["args"]
    }
    rows = part_rows(table)
    assert [(row["start_ns"], row["start_ns"] + row["dur_ns"]) for row in rows] == [span(e) for e in own]
    assert [row["issued_ns"] for row in rows] == [span(numbered[e["args"]["correlation"]])[0] for e in own]
    ended: dict[str, int] = {}
    for row in rows:
        start = row["start_ns"]
        begin = start - row["before_ns"]
        assert row["group"] not in ended or begin == min(ended[row["group"]], start)
        ended[row["group"]] = max(ended.get(row["group"], 0), start + row["dur_ns"])
        assert row["before_compute_ns"] == within(computing, begin, start)
        assert row["before_compute_ns"] + row["before_communication_ns"] == within(busy, begin, start)
        assert sum(row[key] for key in PARTS) == row["before_ns"] and min(row[key] for key in PARTS) >= 0
    assert sum(row["before_compute_ns"] for row in rows) > 0


@needs_shared
def test_a_recording_on_the_host_recounted() -> None:
    """Gloo's own work is the calls, and all else is the host's: no device, so nothing is copied or idle."""
    path = next((SHARED / "data/torch213/ddp_gloo2").glob("rank0*"))
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    works = sorted((e for e in events if e.get("name", "").startswith("gloo:")), key=lambda e: (e["ts"], -e["dur"]))
    table = model(path)
    rows = part_rows(table)
    assert [row["start_ns"] for row in rows] == [int(Decimal(e["ts"]) * 1000) - table.origin_ns for e in works]
    assert {row["before_copy_ns"] + row["before_idle_ns"] for row in rows} == {0}
    assert {row["issued_ns"] for row in rows} == {None}
    assert all(sum(row[key] for key in PARTS) == row["before_ns"] for row in rows)


# Work


def many(count: int) -> TraceTable:
    """A worker with so many collectives in three groups, each with its operators, launch and kernel, and a kernel between."""
    said = (
        '"Collective name":"allreduce","dtype":"Float","Group size":8,"Process Group Ranks":"[0, 1, 2, 3, 4, 5, 6, 7]"'
    )
    step = f'"name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":{50 * count}'
    events = [f'{{"ph":"X","cat":"user_annotation",{step}}}']
    for i in range(count):
        at, stated = 50 * i, f'{said},"Seq":{i},"In msg nelems":{i % 7},"Process Group Name":"{i % 3}"'
        call = f'{{"ph":"X","pid":1,"tid":1,"ts":{at + 1}'
        events += [
            f'{call},"dur":20,"cat":"cpu_op","name":"c10d::allreduce_","args":{{"External id":{2 * i + 1}}}}}',
            f'{call},"dur":15,"cat":"cpu_op","name":"record_param_comms","args":{{"External id":{2 * i + 2},{stated}}}}}',
            f'{call},"dur":5,"cat":"cuda_runtime","name":"cudaLaunchKernel","args":{{"correlation":{i + 1}}}}}',
            f'{{"ph":"X","cat":"kernel","name":"{NCCL}","pid":0,"tid":20,"ts":{at + 30},"dur":15,'
            f'"args":{{"correlation":{i + 1},"device":0,"stream":20,{stated}}}}}',
            f'{{"ph":"X","cat":"kernel","name":"gemm{i % 9}","pid":0,"tid":7,"ts":{at + 10},"dur":15,'
            '"args":{"device":0,"stream":7}}',
        ]
    return model(('{"schemaVersion":1,"traceEvents":[' + ",\n".join(events) + "]}").encode())


def calls_made(table: TraceTable) -> int:
    """Functions that Python calls for the part of a rank, counted once more: what a library does once is no work."""
    counts = []
    for _ in range(2):
        count = 0

        def tally(frame: Any, event: str, argument: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        fresh = replace(table)
        # A cache of its own: calls that drop what other tests left are no work of this part.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(model_cache, "MEMO", model_cache.Memo())
            sys.setprofile(tally)
            try:
                profile_part(fresh, Params())
            finally:
                sys.setprofile(None)
        counts.append(count)
    return min(counts)


@pytest.mark.parametrize(
    "few", [500, pytest.param(10_000, marks=pytest.mark.skipif(not DEEP, reason="make test-deep"))]
)
def test_ten_times_the_collectives_take_as_many_calls(few: int) -> None:
    """100,000 collectives of a rank cost less than 3 times the calls of 10,000: columns, no loop."""
    small, large = many(few), many(10 * few)
    assert len(part_rows(small)) == few and profile_part(large, Params()).facts["distributed.calls"] == 10 * few
    assert calls_made(large) < 1.2 * calls_made(small) < 22_000


def test_the_same_trace_gives_the_same_bytes() -> None:
    assert digest(GROUPED) == digest(GROUPED)


@pytest.mark.skipif(not DEEP, reason="make test-deep")
def test_another_process_gives_the_same_bytes() -> None:
    """Where texts hash to other numbers."""
    code = "import sys; from tests.views.test_rank_part import GROUPED, digest; print(digest(GROUPED))"
    environment = {**os.environ, "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=SAMPLES.parent, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.strip() == digest(GROUPED)


def digest(path: Path) -> str:
    return hashlib.sha256(dump(profile_part(model(path), Params()))).hexdigest()


def test_an_operator_that_takes_its_output_says_how_much_is_gathered() -> None:
    """S of all_gather is the output; the range inside of the operator knows its input alone, and no size of the group."""
    types = {"Input type": ["signed char", "signed char", ""]}
    for shapes, elements in (
        ([[64], [16], []], 64), ([[16], [16], []], 16), ([[20], [16], []], 16), ([[], [16], []], 16),
    ):  # fmt: skip
        table = (
            trace()
            .op("c10d::_allgather_base_", 0, 0.009, 1, shapes=shapes, **types)
            .op("nccl:_all_gather_base", 0.001, 0.005, 2, shapes=[[16]], category="user_annotation", **types)
            .table()
        )
        (row,) = part_rows(table)
        assert (row["elements"], row["comm_bytes"], row["group_size"]) == (elements, elements, None)


def test_the_other_end_of_a_transfer_in_a_group_of_two_is_the_other_rank() -> None:
    for groups, ends in (
        ([[0, 1]], [(1, 0), (0, 1)]), ([[0, 1], [1, 0]], [(1, 0), (0, 1)]),
        ([[0, 1], [1, 2]], [(None, None)] * 2), ([[0, 1, 2]], [(None, None)] * 2), ([[2, 3]], [(None, None)] * 2),
        ([[0, 1], None], [(None, None)] * 2),
    ):  # fmt: skip
        builder = trace().op("c10d::send", 0, 0.002, 1).op("c10d::recv_", 0.01, 0.002, 2)
        listed = [{"pg_name": str(n), "pg_size": 2, "ranks": ranks} for n, ranks in enumerate(groups)]
        builder.root["distributedInfo"] = {"rank": 1, "pg_config": listed}
        rows = part_rows(builder.table())
        assert [(row["source_rank"], row["destination_rank"]) for row in rows] == ends
