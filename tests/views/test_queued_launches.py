"""Work that one thread asks for and another one launches: whose waits, and whose time, a device's idle time is."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import launching_threads
from tb_plugin.analysis.simulate import Change, time_saved
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._ordered_findings import findings_of
from tests.builders import part
from tests.formats.ascend.folders import (
    ALEXNET,
    Files,
    arrow,
    files,
    folder,
    needs_recorded,
    process,
    table_of,
    thread,
    x,
)
from tests.synthetic_ascend import generator

HOST, CANN, DEVICE = 10, (10 << 10) | (7 << 5), (10 << 10) | (13 << 5)
MAIN, QUEUE = 1, 2
Json = dict[str, Any]


def asked(name: str, at: float, dur: float, taken: float, runs: tuple[float, float], number: int) -> list[Json]:
    """An operator of the main thread; the queue's thread launches at ``taken`` what runs then. Microseconds."""
    start, length = runs
    node = f"{taken:.3f}"
    return [
        x(name, HOST, MAIN, f"{at:.3f}", dur, "cpu_op"),
        x("Enqueue", HOST, MAIN, f"{at + dur - 1:.3f}", 1, "enqueue", correlation_id=number),
        x(f"Dequeue@{name}", HOST, QUEUE, node, 2, "dequeue", correlation_id=number),
        x("Node@launch", CANN, QUEUE, f"{taken + 0.5:.3f}", 1, connection_id=number, level="node"),
        x(f"k_{name}", DEVICE, 7, f"{start:.3f}", length, **{"Task Type": "AI_CORE", "connection_id": number}),
        *arrow("async_npu", "torch_to_npu", int(start * 1000), (HOST, MAIN, f"{at:.3f}"), (DEVICE, 7, f"{start:.3f}")),
    ]


def queued(*more: Json) -> TraceTable:
    """A step of 1000 us: two operators, 300 us long each, and a synchronisation of the main thread until the end."""
    return table_of(
        files(
            trace_view=[
                *process(HOST, "Python", "CPU"), *process(CANN, "CANN", "NPU"), *process(DEVICE, "Ascend Hardware", "NPU"),
                thread(DEVICE, 7, "Stream 7"),
                x("ProfilerStep#5", HOST, MAIN, "1000.000", 1000, "cpu_op"),
                *asked("aten::mm", 1000, 300, 1300, (1305, 20), 1),
                *asked("aten::add", 1350, 300, 1650, (1655, 200), 2),
                x("AscendCL@aclrtSynchronizeStream", CANN, MAIN, "1700.000", 160, level="acl"),
                *more,
            ]
        )
    )  # fmt: skip


def test_the_threads_that_ask_are_asked() -> None:
    table = queued()
    names = [table.tracks[track].tid for track in launching_threads(table, 0)]
    assert set(names) == {str(MAIN), str(QUEUE)}


def test_a_device_that_waits_for_operators_of_another_thread_waits_for_no_python() -> None:
    """Between the kernels 330 us: 25 of Python, then 300 in aten::add, and 5 until it runs."""
    table = queued()
    account = idle_account(table, 0)
    between = table.start_ns[table.kind == 6].min() + 20_000
    time = {
        cause: int(each[0])
        for cause, each in account.by_cause(between[None], between[None] + 330_000).items()
        if int(each[0])
    }
    assert time[Cause.PYTHON] == 25_000 and time[Cause.DISPATCH] >= 299_000


def test_what_the_host_did_is_said_of_the_thread_that_fills_the_queue() -> None:
    """The queue's thread has nothing open while it waits for its next task: the other one is in aten::add."""
    pieces = part(queued(), "idle").frames["idle_pieces"].data.to_pylist()
    did = {(row["cause"], row["next_work"]): row["idle_host"] for row in reversed(pieces)}  # the longest of each
    assert did["Operator dispatch", "k_aten::add"] == "aten::add"
    assert did["Launch calls", "k_aten::add"] == "Node@launch"


def test_the_main_thread_s_waits_end_sooner_when_work_does() -> None:
    """The last kernel, 100 us shorter, lets the synchronisation of the other thread return sooner."""
    table = queued()
    (last,) = [row for row in range(len(table)) if table.strings[int(table.name[row])] == "k_aten::add"]
    row = table.start_ns[:1] * 0 + last
    change = Change(row=row, less_ns=row * 0 + 100_000)
    assert time_saved(table, table.steps, [change], careful=False)[0] == pytest.approx(100_000, abs=5_000)


def test_a_step_ends_with_the_work_that_it_asked_for() -> None:
    """The queue's thread launches it when the annotation has ended."""
    table = queued(*asked("aten::late", 1980, 15, 2050, (2060, 40), 3))
    assert (table.steps.end_ns - table.steps.start_ns).tolist() == [1_100_000]


def test_input_is_what_the_main_thread_waits_for() -> None:
    """Planted: batches are loaded by the thread that asks for work, while the device has nothing to do."""
    (process, _) = generator.play(generator.Config(steps=2))
    table = table_of(Files(generator.texts(process)))
    busy = generator.merged((one.start_ns, one.end_ns) for one in (*process.tasks, *process.collectives))
    loading = generator.merged(
        (op.start_ns, op.end_ns) for op in process.ops if op.name.startswith("enumerate(DataLoader)")
    )
    alone = generator.without(generator.without(loading, busy), generator.merged(process.collections))
    inside = [(max(start, busy[0][0]), min(end, busy[-1][1])) for start, end in alone]
    account = idle_account(table, 0)
    first, last = (at - table.origin_ns for at in (busy[0][0], busy[-1][1]))
    found = account.by_cause(table.start_ns[:1] * 0 + first, table.start_ns[:1] * 0 + last)
    assert int(found[Cause.INPUT][0]) == sum(end - start for start, end in inside if end > start) > 0


@needs_recorded
def test_findings_of_a_recorded_training_with_a_queue() -> None:
    """The main thread waits for the device to print losses, which the queue's thread never does; sums of gradients count."""
    found = {each.rule.id: each.notice for each in findings_of(table_of(folder(ALEXNET)), None).all}
    assert {"communication", "synchronising_calls", "launch_bound", "conversions"} <= found.keys()
    assert "python_bound" not in found
    lines = [figure.value for figure in found["synchronising_calls"].figures if figure.metric.key == "sync_line"]
    assert lines == ["main.py(483): __str__"]
    saving = found["communication"].saving
    assert saving is not None and saving.high_ns > 0.3 * saving.step_ns
