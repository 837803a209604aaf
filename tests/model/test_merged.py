"""Traces of several ranks in one file: ids and devices count within their process."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tb_plugin.model.trace import merged_processes
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tests.builders import facts, read
from tests.formats.sources import issues

Event = dict[str, Any]


def rank(
    host: Any,
    device: Any,
    op: str,
    *,
    number: int = 0,
    first_id: int = 1,
    begin: int = 0,
    dur: int = 50,
    calls: int = 6,
) -> list[Event]:
    """One rank: an operator every 1,000 us with one launch, whose kernel begins 60 us after the operator."""
    events: list[Event] = []
    for i in range(calls):
        at, ids = begin + 1000 * i, {"correlation": first_id + i, "External id": 1 + i}
        events += [
            _event("cpu_op", op, host, 9, at, 100, {"External id": 1 + i}),
            _event("cuda_runtime", "cudaLaunchKernel", host, 9, at + 20, 20, ids),
            _event("kernel", f"k of {op}", device, 7, at + 60, dur, {**ids, "device": number, "stream": 7}),
        ]
    return events


def _event(cat: str, name: str, pid: Any, tid: int, at: int, dur: int, args: Event) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": at, "dur": dur, "args": args}


def table_of(events: Sequence[Event]) -> TraceTable:
    return assemble(read(json.dumps({"schemaVersion": 1, "traceEvents": list(events)}).encode()))


def kernels_of(table: TraceTable) -> dict[tuple[str, str, str], int]:
    """(kernel, operator, device) -> how many."""
    found: dict[tuple[str, str, str], int] = {}
    for row in np.flatnonzero(table.kind == EventKind.KERNEL).tolist():
        operator = int(table.operator[row])
        name = table.strings[int(table.name[operator])] if operator >= 0 else ""
        key = (table.strings[int(table.name[row])], name, table.devices[int(table.device[row])].id)
        found[key] = found.get(key, 0) + 1
    return found


def launched(table: TraceTable) -> int:
    return len(set(table.launch[table.launch >= 0].tolist()))


@pytest.mark.parametrize("form", ["[TP{0:02}] {1}", "rank{0}_{1}", "{1} [TP{0:02}]", "{1}_rank{0}"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_text_in_pids_tells_ranks_apart(form: str, shuffled: bool) -> None:
    """Both ranks do the same at the same times under the same ids; the second one's kernels take 80 us, not 50."""
    events = rank(form.format(0, 5000), form.format(0, 0), "aten::A")
    events += rank(form.format(1, 5001), form.format(1, 0), "aten::B", dur=80)
    if shuffled:
        random.Random(1).shuffle(events)
    table = table_of(events)
    names = ("TP00", "TP01") if "TP" in form else ("rank0", "rank1")
    if shuffled:  # numbered by first appearance, named by their tags
        assert sorted(device.id for device in table.devices) == [f"{name}:0" for name in names]
    assert kernels_of(table) == {
        ("k of aten::A", "aten::A", f"{names[0]}:0"): 6,
        ("k of aten::B", "aten::B", f"{names[1]}:0"): 6,
    }
    assert launched(table) == 12
    assert issues(table) == {"merged_processes": 1}
    found = facts(table)
    assert [found[f"device.{name}:0.busy_ns"] for name in names] == [300_000, 480_000]
    pids = sorted(track.pid for track in table.tracks if track.is_device)
    assert pids == [f"{name}:0" for name in names]


@pytest.mark.parametrize("first_id", [1, 100_000_001])
def test_offsets_of_pids_tell_ranks_apart(first_id: int) -> None:
    """With offset correlations as TraceFuse writes, and without."""
    events = rank(5000, 0, "aten::A") + rank(100_005_001, 100_000_000, "aten::B", first_id=first_id)
    random.Random(2).shuffle(events)
    assert kernels_of(table_of(events)) == {
        ("k of aten::A", "aten::A", "5000:0"): 6,
        ("k of aten::B", "aten::B", "100005001:0"): 6,
    }


def test_traces_behind_each_other_are_told_apart_by_place() -> None:
    """Equal ids, times and device pids: the ranks of ``--combine`` that each saw one GPU as number 0."""
    table = table_of(rank(100, 0, "aten::A") + rank(200, 0, "aten::B"))
    assert kernels_of(table) == {("k of aten::A", "aten::A", "100:0"): 6, ("k of aten::B", "aten::B", "200:0"): 6}
    assert launched(table) == 12
    assert len({(track.pid, track.tid) for track in table.tracks if track.is_device}) == 2


def test_devices_of_different_numbers_keep_their_ids() -> None:
    """Two ranks with a GPU each of its own number."""
    table = table_of(rank(100, 0, "aten::A") + rank(200, 1, "aten::B", number=1, begin=300))
    assert kernels_of(table) == {("k of aten::A", "aten::A", "0"): 6, ("k of aten::B", "aten::B", "1"): 6}


def test_a_kernel_is_not_launched_by_a_later_call() -> None:
    """Mixed by time: device 0 begins before all launches of process 200; so device 1 is left for that."""
    events = rank(100, 0, "aten::A") + rank(200, 1, "aten::B", number=1, begin=300)
    events.sort(key=lambda event: event["ts"])
    table = table_of(events)
    assert kernels_of(table) == {("k of aten::A", "aten::A", "0"): 6, ("k of aten::B", "aten::B", "1"): 6}
    assert "unclear_process" not in issues(table)


def test_too_many_processes_to_compare_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [*rank(100, 0, "aten::A"), *rank(200, 1, "aten::B", begin=500, number=1)]
    events.sort(key=lambda event: event["ts"])
    assert "unclear_process" not in issues(table_of(events))
    monkeypatch.setattr(merged_processes, "_MOST_PAIRS", 3)
    table = table_of(events)
    assert issues(table)["unclear_process"] == 12 and launched(table) == 0


def test_a_number_of_a_process_that_no_integer_holds() -> None:
    table = table_of([*rank("9" * 5000, 0, "aten::A"), *rank(200, 1, "aten::B", begin=90_000, number=1)])
    assert launched(table) == 12


def test_what_cannot_be_told_apart_goes_to_nobody() -> None:
    """Mixed by time, equal ids and times: either process may have launched either device's work."""
    events = (
        rank(100, 0, "aten::A") + rank(200, 1, "aten::B", number=1) + rank(300, 2, "aten::C", number=2, first_id=50)
    )
    events.sort(key=lambda event: event["ts"])
    table = table_of(events)
    assert kernels_of(table) == {
        ("k of aten::A", "", "0"): 6,
        ("k of aten::B", "", "1"): 6,
        ("k of aten::C", "aten::C", "2"): 6,
    }
    assert issues(table)["unclear_process"] == 12


def test_work_of_two_processes_on_one_device_is_told_apart_by_nothing() -> None:
    """Mixed by time, equal ids on one device: the second process has no other device, so the work may be its own."""
    events = rank(100, 0, "aten::A") + rank(200, 0, "aten::B", begin=30)
    events.sort(key=lambda event: event["ts"])
    table = table_of(events)
    assert kernels_of(table) == {("k of aten::A", "", "0"): 6, ("k of aten::B", "", "0"): 6}
    assert issues(table)["unclear_process"] == 12


def test_a_second_process_that_only_launches_changes_nothing() -> None:
    """Calls of a driver's process without operators, under ids that the first one has as well."""
    events = rank(100, 0, "aten::A")
    events += [_event("cuda_runtime", "cudaLaunchKernel", 17, 1, 5 + i, 1, {"correlation": 1 + i}) for i in range(6)]
    table = table_of(events)
    assert table.process is None
    assert not issues(table)


def test_processes_with_unique_ids_share_a_device() -> None:
    """Two processes of one recording on one GPU: as in one process."""
    events = rank(100, 0, "aten::A") + rank(200, 0, "aten::B", first_id=50)
    events = [event for event in events if event["args"].pop("External id", 1)]
    table = table_of(events)
    assert table.process is None
    assert kernels_of(table) == {("k of aten::A", "aten::A", "0"): 6, ("k of aten::B", "aten::B", "0"): 6}


def test_processes_without_launches_change_nothing() -> None:
    """Operators of workers of a DataLoader, which launch nothing."""
    events = rank(100, 0, "aten::A")
    events += [_event("cpu_op", "aten::stack", 200 + i, 1, 10, 5, {"External id": 1000 + i}) for i in range(4)]
    table = table_of(events)
    assert table.process is None
    assert kernels_of(table) == {("k of aten::A", "aten::A", "0"): 6}


def test_equal_ids_in_one_process_are_reported() -> None:
    """Ranks of containers, where each process has the same number: nothing tells them apart."""
    table = table_of(rank(7, 0, "aten::A") + rank(7, 0, "aten::B", begin=300))
    assert issues(table) == {"repeated_ids": 6}
