"""Each rank of a merged file has the numbers of the file that it was merged from."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tb_plugin.model.trace import merged_ranks
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.merged_ranks import rank_traces
from tb_plugin.model.trace.table import RawTrace, TraceTable
from tests.builders import HOST, TraceBuilder, facts, kernel, memcpy, part, read, trace
from tests.model.test_merged import rank

Event = dict[str, Any]
Merge = Callable[[Sequence[Mapping[str, Any]]], dict[str, Any]]
_ANNOTATION = "gpu_user_annotation"
HTA = Path(__file__).parents[3] / "shared/data/hta/trace_filter"
OFFSET = 100_000_000


def text_pids(files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """As SGLang's ``merge_profiles``: text before each pid, ids as they were."""
    return _merged(files, lambda event, n: {"pid": f"[TP{n:02}] {event['pid']}"} if "pid" in event else {})


def offsets(files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """As the first TraceFuse: numbers added to pids, correlations and ids of arrows."""

    def change(event: Event, n: int) -> Event:
        changed = {key: event[key] + n * OFFSET for key in ("pid", "id") if type(event.get(key)) is int}
        args = event.get("args", {})
        if "correlation" in args:
            changed["args"] = {**args, "correlation": args["correlation"] + n * OFFSET}
        return changed

    return _merged(files, change)


def stated_ranks(files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """As TraceFuse: the same, and the rank among the arguments of each event."""
    events = []
    for n, file in enumerate(offsets([file]) for file in files):
        for event in file["traceEvents"]:
            if type(event.get("pid")) is int:
                event["pid"] += n * OFFSET
            events.append({**event, "args": {**event.get("args", {}), "rank": n}})
    return {**files[0], "traceEvents": events}


def behind_each_other(files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """As ``--combine``: the events of one file after those of another."""
    return _merged(files, lambda event, n: {})


def _merged(files: Sequence[Mapping[str, Any]], change: Callable[[Event, int], Event]) -> dict[str, Any]:
    events = [{**event, **change(event, n)} for n, file in enumerate(files) for event in file["traceEvents"]]
    return {**files[0], "traceEvents": events}


def raw_of(file: Mapping[str, Any]) -> RawTrace:
    return read(json.dumps(file).encode())


def ranks_of(file: Mapping[str, Any]) -> dict[str, TraceTable]:
    return {found.label: assemble(found.make()) for found in rank_traces(raw_of(file))}


def file_of(n: int) -> dict[str, Any]:
    """The trace of one rank: two steps, operators with kernels and a copy, a backward operator, memory, counters."""
    built: TraceBuilder = (
        trace().device(0).device(1).meta(distributedInfo={"backend": "nccl", "rank": n, "world_size": 2})
    )
    for i, at in enumerate((100, 1100)):
        built.step(7 + i, at, 900, ext=1 + 4 * i)
        built.op(f"aten::op{n}", at + 10, 100 + 10 * n, ext=2 + 4 * i, sequence=5 + i, shapes=[[2, 3]])
        built.launches(kernel(f"gemm{n}", 30 + 20 * n, device=n), memcpy(5, at + 90, device=n), dur=4)
        built.op(f"Backward{n}", at + 300, 50, ext=3 + 4 * i, tid=2, sequence=5 + i, forward_thread=1)
        built.launches(kernel("wgrad", 70 - 10 * n, device=n), dur=4)
        built.arrow(at + 10, at + 300)
        built.memory(at + 20, 1024 * (n + 1), 1, n, **{"Total Allocated": 2048 * (i + 1), "Total Reserved": 1 << 20})
        built.counter(at + 30, "queue", length=i + n)
        built.device_annotation(f"ProfilerStep#{7 + i}", at + 14, 500, n)
    built.event("Trace", "PyTorch Profiler (0)", 0, 2100, "Spans", "PyTorch Profiler")
    file: dict[str, Any] = json.loads(built.text())
    for event in file["traceEvents"]:
        if event.get("pid") == HOST and "stream" not in event.get("args", {}) and event.get("cat") != _ANNOTATION:
            event["pid"] = 5000 + n
    return file


def numbers_of(table: TraceTable) -> dict[str, Any]:
    """Numbers of several views, and how rows refer to each other."""
    found: dict[str, Any] = dict(facts(table))
    for view in ("operators", "kernels", "memory"):
        found |= part(table, view).facts
    for view, name in (("operators", "operators_by_shape"), ("kernels", "kernels"), ("launches", "runtime_calls")):
        found[name] = part(table, view).frames[name].data.to_pylist()
    found["steps"] = (table.steps.label, table.steps.start_ns.tolist(), table.steps.end_ns.tolist())
    found["memory"] = (table.memory.time_ns.tolist(), table.memory.bytes.tolist(), table.memory.device_id.tolist())
    length = table.strings.take(table.counters.series).to_numpy(zero_copy_only=False) == "length"
    found["counters"] = table.counters.value[length].tolist()
    found["devices"] = table.devices
    for column in ("start_ns", "dur_ns", "kind", "device", "operator", "launch", "forward", "parent"):
        found[column] = getattr(table, column).tolist()
    found["names"] = table.strings.take(table.name).to_pylist()
    found["metadata"] = table.metadata.get("distributedInfo")
    return found


@pytest.mark.parametrize("merge", [text_pids, stated_ranks, offsets, behind_each_other])
def test_ranks_have_the_numbers_of_their_files(merge: Merge) -> None:
    files = [file_of(0), file_of(1)]
    ranks = ranks_of(merge(files))
    known = merge in (text_pids, stated_ranks)
    assert list(ranks) == (["rank0", "rank1"] if known else ["process 1 of 2", "process 2 of 2"])
    for table, file in zip(ranks.values(), files, strict=True):
        want, found = numbers_of(assemble(raw_of(file))), numbers_of(table)
        if not known:  # nobody states the rank
            want["metadata"] = {"backend": "nccl", "world_size": 2}
        assert found == want


@pytest.mark.parametrize(
    "stated",
    [
        1,
        [],
        {"rank0": {}, "rank1": 5},
        {"rank0": {"processes": [1]}, "rank1": {"processes": {"none": "x"}}},
        {"rank0": {"processes": {"none": 1}}, "rank1": {"processes": None}},
    ],
)
def test_lists_of_processes_that_help_nothing_are_ignored(stated: object) -> None:
    assert list(ranks_of({**text_pids([file_of(0), file_of(1)]), "rankMetadata": stated})) == ["rank0", "rank1"]


def test_listed_processes_are_ranks_even_without_device_work_and_rank_numbers() -> None:
    """Ids are those of the rank again; a listed process without events, and one of another type, are nothing."""
    events = [op for pid in (7, 10_000_007) for op in json.loads(trace().op("aten::a", 1, 5).text())["traceEvents"]
              if op.update(pid=pid) is None]  # fmt: skip
    stated = {
        "a": {"processes": {"7": "7"}, "host_name": "first"},
        "b": {"processes": {"10000007": "7", "10000008": "8", "10000009": 9}, "host_name": "second"},
    }
    found = ranks_of({"schemaVersion": 1, "rankMetadata": stated, "traceEvents": events})
    assert {name: table.metadata["host_name"] for name, table in found.items()} == {"a": "first", "b": "second"}
    assert [[track.pid for track in table.tracks] for table in found.values()] == [["7"], ["7"]]


def test_events_of_no_rank_are_counted() -> None:
    """Sorted by time, with offsets: nobody knows whose the windows of the profiler are, both of the pid "Spans"."""
    merged = offsets([file_of(0), file_of(1)])
    merged["traceEvents"].sort(key=lambda event: event.get("ts", 0))
    issues = [
        {issue.code: issue.count for issue in found.make().report.issues} for found in rank_traces(raw_of(merged))
    ]
    assert issues == [{"merged_processes": 1, "unknown_rank": 2}] * 2


@pytest.mark.skipif(not HTA.is_dir(), reason="../shared has the traces")
@pytest.mark.parametrize("merge", [text_pids, stated_ranks, behind_each_other])
def test_recorded_ranks_have_the_numbers_of_their_files(merge: Merge) -> None:
    files = [json.loads(gzip.decompress((HTA / f"sampled_rank-{n}.json.gz").read_bytes())) for n in (0, 1)]
    for table, file in zip(ranks_of(merge(files)).values(), files, strict=True):
        own = assemble(raw_of(file))
        assert facts(table) == facts(own)
        for column in ("dur_ns", "operator", "launch", "forward"):
            assert (getattr(table, column) == getattr(own, column)).all()


@pytest.mark.parametrize(
    ("tags", "names"),
    [
        (("[TP00] ", "[TP01] "), ["rank0", "rank1"]),
        (("rank7_", "rank12_"), ["rank7", "rank12"]),
        (("[TP00-PP00] ", "[TP00-PP01] "), ["TP00-PP00", "TP00-PP01"]),
        (("left ", "right "), ["left", "right"]),
        (("a" * 70 + " ", "b "), ["process 1 of 2", "process 2 of 2"]),
    ],
)
def test_names_of_workers(tags: tuple[str, str], names: list[str]) -> None:
    events = [event for tag in tags for event in rank(f"{tag}5000", f"{tag}0", "aten::A")]
    assert [found.label for found in rank_traces(raw_of({"traceEvents": events}))] == names


def test_a_process_name_states_its_rank() -> None:
    events = rank(100, 0, "aten::A") + rank(200, 1, "aten::B", number=1, begin=90_000, first_id=50)
    names = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": f"Rank {n}"}}
        for pid, n in ((100, 4), (200, 6))
    ]
    assert [found.label for found in rank_traces(raw_of({"traceEvents": names + events}))] == ["rank4", "rank6"]


def _child_without_device_work() -> list[Event]:
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaGetDevice", "pid": 200, "tid": 1, "ts": 5, "dur": 1}
    operator = {"ph": "X", "cat": "cpu_op", "name": "aten::B", "pid": 200, "tid": 1, "ts": 4, "dur": 9, "args": {}}
    return [*rank(100, 0, "aten::A"), operator, {**call, "args": {"correlation": 900}}]


def _unclear() -> list[Event]:
    """Mixed by time, with equal ids and times: either process may have launched the work of either device."""
    events = [*rank(100, 0, "aten::A"), *rank(200, 1, "aten::B", number=1)]
    return sorted(events, key=lambda event: event["ts"])


def _operators_on_the_host() -> list[Event]:
    return [event for pid in ("left 1", "right 2") for event in rank(pid, 0, "aten::A") if event["cat"] == "cpu_op"]


@pytest.mark.parametrize(
    "events",
    [rank(100, 0, "aten::A"), _child_without_device_work(), _unclear(), _operators_on_the_host()],
    ids=["one rank", "child", "unclear", "no device work"],
)
def test_other_files_stay_whole(events: list[Event]) -> None:
    raw = raw_of({"traceEvents": events})
    assert rank_traces(raw) == []
    assert len(assemble(raw)) == len(events)


def test_an_unclear_file_keeps_its_notice() -> None:
    issues = {issue.code for issue in assemble(raw_of({"traceEvents": _unclear()})).report.issues}
    assert "unclear_process" in issues


def test_a_file_of_too_many_ranks_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    file = text_pids([file_of(0), file_of(1)])
    assert len(rank_traces(raw_of(file))) == 2
    monkeypatch.setattr(merged_ranks, "_MOST_WORKERS", 1)
    assert rank_traces(raw_of(file)) == []


def test_ranks_without_device_work_are_known_by_their_names() -> None:
    events = [
        event
        for n in range(2)
        for event in rank(f"[TP0{n}] 9", f"[TP0{n}] 0", "aten::A", begin=500 * n)
        if event["cat"] == "cpu_op"
    ]
    ranks = ranks_of({"traceEvents": events})
    assert {name: len(table) for name, table in ranks.items()} == {"rank0": 6, "rank1": 6}
    assert all(np.array_equal(table.start_ns, np.arange(6) * 1_000_000) for table in ranks.values())
