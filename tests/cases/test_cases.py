"""Inputs that were once read wrongly, rebuilt small: what the report says about each of them today."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tb_plugin import cli
from tests.builders import TraceBuilder, kernel, trace
from tests.flight import call, dump

Json = dict[str, Any]


def report(path: Path, capsys: pytest.CaptureFixture[str], *views: str) -> Json:
    """What ``report`` prints as JSON."""
    chosen = [word for view in views for word in ("--view", view)]
    assert cli.main(["report", str(path), "--format", "json", *chosen]) == 0
    document: Json = json.loads(capsys.readouterr().out)
    return document


def test_ranks_of_one_file_with_equal_correlations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Case merged_ranks_colliding_correlations: two processes with six launches each, numbered alike, on one device."""
    events = []
    for process, name, dur in ((100, "A", 50), (200, "B", 80)):
        for i in range(6):
            at = 1_000 * i + (500 if process == 200 else 0)
            place: Json = {"ph": "X", "pid": process, "tid": process}
            events += [
                {**place, "cat": "cpu_op", "name": f"aten::{name}", "ts": at, "dur": 100},
                {**place, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 20, "dur": 20,
                 "args": {"correlation": i + 1}},
                {"ph": "X", "cat": "kernel", "name": f"k{name}", "pid": 0, "tid": 7, "ts": at + 60, "dur": dur,
                 "args": {"device": 0, "stream": 7, "correlation": i + 1}},
            ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    profiles = report(path, capsys)["profiles"]
    rows = [row for profile in profiles for row in profile["tables"]["operators"]]
    times = {row["name"]: (row["calls"], row["device_total_ns"]) for row in rows}
    assert times == {"aten::A": (6, 300_000), "aten::B": (6, 480_000)}
    assert sum(profile["facts"]["launch.count"] for profile in profiles) == 12


def test_nine_threads_that_launch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Case idle_nine_threads: between nine kernels of 10 us, 90 us apart, the device idles for 8 x 90 us."""
    builder = trace().device(0)
    for thread in range(9):
        at = 100 * thread
        builder.op("aten::mul", at, 20, tid=10 + thread).launches(kernel("k", 10, at + 30), at=at + 10, dur=5)
    path = tmp_path / "trace.json"
    path.write_text(builder.text())
    document = report(path, capsys)
    (profile,) = document["profiles"]
    assert document["failed"] == [] and profile["facts"]["device.0.idle_ns"] == 720_000
    causes = {key: value for key, value in profile["facts"].items() if key.startswith("device.0.idle.")}
    assert sum(causes.values()) == 720_000
    assert report(path, capsys, "idle")["profiles"][0]["tables"]["idle_causes"]


def test_a_copy_without_a_launch_moves_no_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Case step_start_unlaunched: eight kernels of 70 us in a step of 1 ms, and near its end a copy without a launch."""
    builder = trace().device(0).step(1, 1_000, 1_000)
    for i in range(8):
        builder.op("aten::mm", 1_010 + 100 * i, 20).launches(
            kernel("gemm", 70, 1_025 + 100 * i), at=1_015 + 100 * i, dur=5
        )
    builder.event("gpu_memcpy", "Memcpy HtoD", 1_990, 5, 0, 9, device=0, stream=9)
    path = tmp_path / "trace.pt.trace.json"
    path.write_text(builder.text())
    (profile,) = report(path, capsys)["profiles"]
    assert profile["facts"]["overview.step_time_mean_ns"] == 1_000_000
    assert profile["facts"]["device.0.busy_ns"] == 565_000
    assert profile["facts"]["device.0.utilization"] == 0.56


def test_a_list_whose_first_event_holds_a_brace_before_its_phase(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case pyspy_tid64: begin and end marks of two threads with ids above 2^32, keys in alphabetical order."""
    main, loader = 139627874611776, 139627866219072

    def mark(name: str, phase: str, at: int, tid: int) -> Json:
        place = {"pid": 1, "tid": tid, "ts": at}
        return {"args": {"filename": "train.py", "line": 1}, "cat": "py-spy", "name": name, "ph": phase, **place}

    events = [mark("fit", "B", 1_000, main)]
    for i in range(3):
        at = 2_000 + 10_000 * i
        events += [mark("forward", "B", at, main), mark("matmul", "B", at + 1_000, main)]
        events += [mark("matmul", "E", at + 4_000, main), mark("forward", "E", at + 6_000, main)]
        events += [mark("load", "B", at, loader), mark("load", "E", at + 5_000, loader)]
    events.append(mark("fit", "E", 32_000, main))
    path = tmp_path / "pyspy.json"
    path.write_text(json.dumps(events))
    (profile,) = report(path, capsys, "overview")["profiles"]
    longest = {row["name"]: (row["range_total_ns"], row["range_own_ns"]) for row in profile["tables"]["longest_ranges"]}
    assert longest == {
        "fit": (31_000_000, 13_000_000),
        "forward": (18_000_000, 9_000_000),
        "matmul": (9_000_000, 9_000_000),
        "load": (15_000_000, 15_000_000),
    }


def rank(number: int, start: int, late: int = 0, world: int = 2) -> TraceBuilder:
    """Three steps of 9 ms: a product of 2 ms (``late`` us longer), then a sum over the ranks that ends on all at once."""
    builder = trace().device(number).meta(distributedInfo={"backend": "nccl", "rank": number, "world_size": world})
    for i in range(3):
        at = start + 10_000 * i
        builder.step(i, at, 9_000)
        builder.op("aten::mm", at + 100, 200).launches(
            kernel("gemm", 2_000 + late, at + 400, device=number), at=at + 150
        )
        args: Json = {
            "Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": world,
            "dtype": "BFloat16", "Process Group Name": "0", "Process Group Ranks": str(list(range(world))),
        }  # fmt: skip
        builder.op("record_param_comms", at + 400, 60, **args)
        begin = at + 2_450 + late
        name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
        builder.launches(kernel(name, at + 3_150 - begin, begin, device=number, stream=20, **args), at=at + 420)
    return builder


def test_stages_of_a_server_are_spans_of_its_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Case sglang_by_stage: in DECODE rank 1 computes 300 us longer in each step; in EXTEND nobody is late."""
    for stage, start, late in (("EXTEND", 0, 0), ("DECODE", 200_000, 300)):
        for number in range(2):
            path = tmp_path / f"1759255878.904894-TP-{number}-{stage}.trace.json"
            path.write_text(rank(number, start, late * number).text())
    document = report(tmp_path, capsys)
    assert {(each["worker"], each["span"]) for each in document["profiles"]} == {
        (f"rank{number}", stage) for number in range(2) for stage in ("DECODE", "EXTEND")
    }
    facts = {group["span"]: group["facts"] for group in document["groups"]}
    assert {span: each["distributed.world_size"] for span, each in facts.items()} == {"DECODE": 2, "EXTEND": 2}
    assert facts["DECODE"]["distributed.straggler_rank"] == 1
    assert facts["DECODE"]["distributed.lost_ns"] == pytest.approx(300_000)
    assert facts["EXTEND"]["distributed.stragglers"] == 0


def test_a_step_in_names_is_no_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Case names_step_suffix: files of four devices that end in the same number."""
    for number in range(4):
        path = tmp_path / f"worker{number}_step_12.176718931200{number}.pt.trace.json"
        path.write_text(rank(number, 0, world=4).text())
    (group,) = report(tmp_path, capsys, "distributed")["groups"]
    assert {row["node"] for row in group["tables"]["devices"]} == {""}
    assert len(group["tables"]["devices"]) == 4


def test_dumps_of_pytorch_2_2_are_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Case fr_v1_list: rank 1 did not call all_reduce 6."""
    for number, calls in ((0, 6), (1, 5)):
        entries = [
            {
                "seq_id": i, "pg_id": 0, "profiling_name": "nccl:all_reduce", "input_sizes": [[3, 4]],
                "output_sizes": [[3, 4]], "state": "completed" if i < 6 else "scheduled", "time_created_us": 1_000 * i,
                "frames": [{"filename": "/home/u/t.py", "line": 3, "name": "f"}],
            }
            for i in range(1, calls + 1)
        ]  # fmt: skip
        (tmp_path / f"nccl_trace_rank_{number}").write_bytes(pickle.dumps(entries))
    said = answer(tmp_path, capsys)
    assert said.startswith("rank1 did not call all_reduce number 6 of group –") and said.endswith("1 rank waits.")


def test_dumps_named_for_their_hosts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Case fr_host_names: rank 3 did not call all_reduce 7, three ranks wait."""
    for number in range(4):
        entries = [call(i, state="completed" if i < 7 else "started") for i in range(1, 7 if number == 3 else 8)]
        name = f"nccl_trace_rank_container-node0{2 + number // 2}_{number}"
        (tmp_path / name).write_bytes(pickle.dumps(dump(entries, world=4)))
    said = answer(tmp_path, capsys)
    assert said.startswith("rank3 did not call all_reduce number 7 of group default_pg") and said.endswith(
        "3 ranks wait."
    )


def answer(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The first sentence about all ranks."""
    (group,) = report(path, capsys)["groups"]
    return str(group["findings"][0]["text"])
