"""The simulator of faulty trainings: its files are valid, its machine keeps the rules, and its faults cost what they say."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tb_plugin
from tb_plugin.rules import regular_rules
from tests import faults
from tests.depth import sampled

Json = dict[str, Any]
CLEAN = {
    "clean": faults.Config(seed=1, steps=1),
    "DDP": faults.Config(seed=2, steps=1, ddp=True),
    "host bound": faults.Config(seed=3, steps=1, host_bound=True),
}
SHARDED = faults.Config(
    seed=3, steps=2, size=0.1, fault=("recomputation", "sharding", "pipeline", "offloading", "experts")
)
CASES = CLEAN | {name: faults.Config(seed=4, steps=1, fault=name) for name in faults.FAULTS}
SEEDS = sampled(range(40), [3])
SOME = sampled(list(CASES), ["DDP", "deterministic_sync", "launch_bound", "pageable_copies", "reserved_oscillation"])


@cache
def training(case: str) -> Any:
    return faults.run(CASES[case])


@cache
def events(case: str) -> list[Json]:
    top = json.loads(training(case).text())
    for event in top["traceEvents"]:
        for key in {"ts", "dur"} & event.keys():
            event[key] = round(event[key] * 1000)
    found: list[Json] = top["traceEvents"]
    return found


def spans(case: str, *categories: str) -> list[Json]:
    return [event for event in events(case) if event.get("cat") in categories and event["ph"] == "X"]


def work(case: str) -> list[Json]:
    return spans(case, "kernel", "gpu_memcpy", "gpu_memset")


def tracks(rows: list[Json]) -> Iterator[list[Json]]:
    for track in sorted({(row["pid"], row["tid"]) for row in rows}):
        mine = (row for row in rows if (row["pid"], row["tid"]) == track)
        yield sorted(mine, key=lambda row: (row["ts"], -row["dur"]))


@pytest.mark.parametrize("case", CASES)
def test_host_threads_nest_and_streams_run_one_thing_at_a_time_in_order(case: str) -> None:
    host = spans(case, "cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver")
    for rows in tracks(host):
        ends: list[int] = []
        for row in rows:
            while ends and ends[-1] <= row["ts"]:
                ends.pop()
            assert row["dur"] >= 0 and (not ends or row["ts"] + row["dur"] <= ends[-1]), row
            ends.append(row["ts"] + row["dur"])
    for rows in tracks(work(case)):
        assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(rows))
        numbers = [row["args"]["correlation"] for row in rows]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("case", CASES)
def test_work_begins_after_its_launch_and_waits_for_what_it_waits_for(case: str) -> None:
    calls = {row["args"]["correlation"]: row for row in spans(case, "cuda_runtime", "cuda_driver")}
    queued = Counter[int]()
    for row in work(case):
        call = calls[row["args"]["correlation"]]
        blocking = "Pageable -> Device" in row["name"]
        assert row["ts"] > (call["ts"] if blocking else call["ts"] + call["dur"])
        assert row["args"].get("External id") == call["args"].get("External id")
        queued[row["args"]["correlation"]] += 1
    arrows = Counter(event["id"] for event in events(case) if event.get("cat") == "ac2g" and event["ph"] == "f")
    assert arrows == queued
    starts = Counter(event["id"] for event in events(case) if event.get("cat") == "ac2g" and event["ph"] == "s")
    assert starts.keys() == queued.keys() and set(starts.values()) == {1}
    streams = {(rows[0]["pid"], rows[0]["tid"]): rows for rows in tracks(work(case))}
    numbers = {stream: [row["args"]["correlation"] for row in rows] for stream, rows in streams.items()}

    def before(stream: tuple[int, int], number: int) -> int:
        """When the last work that a stream had been given ended."""
        at = bisect_left(numbers.get(stream, []), number)
        return streams[stream][at - 1]["ts"] + streams[stream][at - 1]["dur"] if at else 0

    for wait in spans(case, "cuda_sync"):
        args, stream = wait["args"], (wait["pid"], wait["tid"])
        call = calls[args["correlation"]]
        if args["cuda_sync_kind"] == "Stream Wait Event":
            at = bisect_left(numbers.get(stream, []), args["correlation"])
            if at < len(streams.get(stream, [])):
                assert streams[stream][at]["ts"] >= before(
                    args["wait_on_stream"], args["wait_on_cuda_event_record_corr_id"]
                )
        else:
            awaited = streams if stream[1] == -1 else [stream]
            assert call["ts"] + call["dur"] > max(before(one, args["correlation"]) for one in awaited)


@pytest.mark.parametrize("case", CASES)
def test_arrows_of_backward_and_numbers_hold_together(case: str) -> None:
    both = [event for event in events(case) if event.get("cat") == "fwdbwd"]
    begins, ends = ({event["id"]: event for event in both if event["ph"] == phase} for phase in "sf")
    assert begins.keys() == ends.keys() and len(both) == 2 * len(begins)
    assert all(begins[number]["ts"] < ends[number]["ts"] for number in begins)
    # The backward pass of a reentrant checkpoint runs on the thread of the forward pass that it repeats.
    own = {event["id"] for event in ends.values() if event["tid"] == begins[event["id"]]["tid"]}
    assert not own or case == "recomputation"
    indices = [event["args"]["Ev Idx"] for event in events(case) if "Ev Idx" in event.get("args", {})]
    assert len(set(indices)) == len(indices)
    totals = [event["args"] for event in events(case) if event.get("name") == "[memory]"]
    assert totals and all(a["Total Allocated"] <= a["Total Reserved"] <= 85_018_279_936 for a in totals)
    assert all(b["Total Allocated"] - a["Total Allocated"] == b["Bytes"] for a, b in pairwise(totals))


@pytest.mark.parametrize("case", SOME)
def test_the_same_seed_gives_the_same_text(case: str) -> None:
    assert faults.run(CASES[case]).text() == training(case).text()


@pytest.mark.parametrize("case", SOME)
def test_the_plugin_reads_it_without_a_notice(case: str, tmp_path: Path) -> None:
    faults.write(training(case), tmp_path)
    profile = tb_plugin.open(tmp_path)
    assert profile.read.issues == [] and profile.data_notices == []
    assert profile.facts["overview.step_time_mean_ns"] == pytest.approx(training(case).step_time_ns, rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_healthy_program_keeps_the_device_busy_and_waits_once(seed: int) -> None:
    for ddp in (False, True):
        healthy = faults.run(faults.Config(seed, ddp=ddp))
        rows = [row for row in healthy.machine.device_rows if row.category != "cuda_sync"]
        busy = end = 0
        for row in sorted(rows, key=lambda row: row.start):
            busy += max(0, row.end - max(row.start, end))
            end = max(end, row.end)
        begin, last = healthy.steps[0][0], healthy.steps[-1][1]
        assert busy > 0.97 * (last - begin)
        names = Counter(row.name for row in healthy.machine.rows)
        assert names["cudaDeviceSynchronize"] == 1 and not names["cudaStreamSynchronize"] and not names["cudaMalloc"]
        assert 0.5 < healthy.machine.peak / 85_018_279_936 < 0.7
        assert 18e6 < healthy.step_time_ns < 70e6


@pytest.mark.parametrize("name", faults.FAULTS)
def test_a_fault_costs_time_that_its_absence_gives_back(name: str) -> None:
    for seed in SEEDS:
        faulty = faults.run(faults.Config(seed, steps=2, fault=name))
        saved = 1 - faulty.mended.sample_time_ns / faulty.sample_time_ns
        if name in faults.COSTLESS:
            assert saved == 0 and faulty.machine.peak != faulty.mended.machine.peak
        else:
            assert 0.015 < saved < 0.9, seed
        assert faulty.planted and not faulty.mended.planted


def test_what_a_fault_brings_along_is_a_fault_or_a_rule() -> None:
    told = faults.FAULTS.keys() | {rule.id for rule in regular_rules()}
    assert all(set(others) <= told - {name} for name, others in faults.ALSO.items())


@pytest.mark.parametrize("name", ["synchronising_calls", "garbage_collection", "launch_bound", "redundant_copies"])
def test_without_a_fault_all_else_takes_as_long_as_before(name: str) -> None:
    """Kernels of the same place last the same to the nanosecond, though the program around them is another one."""
    faulty = faults.run(faults.Config(5, steps=2, fault=name))

    def kernels(of: Any) -> Counter[tuple[str, int]]:
        return Counter((row.name, row.end - row.start) for row in of.machine.device_rows if row.category == "kernel")

    extra = kernels(faulty) - kernels(faulty.mended)
    assert not kernels(faulty.mended) - kernels(faulty)
    assert extra.total() == (faulty.planted["calls"] if name == "redundant_copies" else 0)


def test_faults_go_together() -> None:
    both = faults.run(faults.Config(5, steps=1, fault=("synchronising_calls", "python_bound")))
    names = Counter(row.name for row in both.machine.rows)
    assert names["train.py(57): check_activations"] and names["model.py(81): update_mask"]
    assert names["cudaStreamSynchronize"] + names["cudaDeviceSynchronize"] > 1


def test_a_launch_blocks_where_the_queue_is_full() -> None:
    healthy = faults.run(faults.Config(1))
    launches = [row for row in healthy.machine.rows if row.name.startswith("cudaLaunch")]
    begins = [row.start for row in healthy.machine.device_rows if row.category == "kernel"]
    assert max(row.end - row.start for row in launches) > 20_000
    assert all(begins[n] <= row.end for n, row in enumerate(launches[1_024:]))


def test_the_command_writes_a_trace_and_says_what_the_fault_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults.main([str(tmp_path), "--fault", "data_loading", "--steps", "1", "--seed", "7", "--plain"])
    (path,) = tmp_path.iterdir()
    assert path.read_text(encoding="utf-8") == faults.run(faults.Config(7, 1, "data_loading")).text()
    assert "without the faults" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        faults.main([str(tmp_path), "--fault", "nothing"])


def test_a_fault_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="a fault is one of"):
        faults.Config(fault="nothing")


def test_the_committed_sample_is_what_the_simulator_makes_today() -> None:
    (path,) = (Path(__file__).parent.parent / "samples" / "synthetic_sharded").iterdir()
    made = faults.run(SHARDED)
    assert path.name == f"{made.file_name}.gz"
    assert gzip.decompress(path.read_bytes()).decode() == made.text()
