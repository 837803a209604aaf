"""Databases that torch_npu exported, against direct SQL, the tool's own sums, and another recording of the same program."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.formats.ascend.database import host as of_host
from tb_plugin.lib.intervals import measure, union
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.operators.view import Operators
from tb_plugin.views.overview.view import Overview
from tests.formats.ascend.folders import folder, table_of
from tests.formats.sources import DATA

LOGS = DATA / "ascend" / "logdir"
pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason="the real profiles of ../shared/data/ascend are not here")


def profile(job: str, rank: int) -> Path:
    return next((LOGS / job).glob(f"rank_{rank}_*"))


def opened(job: str, rank: int) -> TraceTable:
    return table_of(folder(profile(job, rank)))


@pytest.fixture(scope="module", params=[0, 1])
def rank(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def stored(rank: int) -> TraceTable:
    return opened("alexnet_db_level1", rank)


@pytest.fixture(scope="module")
def written(rank: int) -> TraceTable:
    return opened("alexnet_text_level1", rank)


@pytest.fixture(scope="module")
def asked(rank: int) -> Iterator[sqlite3.Cursor]:
    path = next(profile("alexnet_db_level1", rank).rglob("ascend_pytorch_profiler_*.db"))
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    yield connection.cursor()
    connection.close()


def one(asked: sqlite3.Cursor, query: str) -> Any:
    return asked.execute(query).fetchone()[0]


def names_of(trace: TraceTable, kind: EventKind) -> Counter[str]:
    """Names without the numbers that differ from one recording to the next."""
    texts = (trace.strings[int(name)] for name in trace.name[trace.kind == kind])
    return Counter(re.sub(r"0x[0-9a-f]+", "0x", re.sub(r"__\d+_", "__N_", text)) for text in texts)


def computing(trace: TraceTable) -> np.ndarray[Any, Any]:
    return (trace.kind == EventKind.KERNEL) & ~trace.is_collective


def test_nothing_is_lost(stored: TraceTable, asked: sqlite3.Cursor) -> None:
    assert [issue.code for issue in stored.report.issues] == ["links_in_group"], "nobody states who the ranks are"
    assert stored.report.complete
    expected = sum(
        one(asked, f"SELECT count(*) FROM {table}")
        for table in ("PYTORCH_API", "CANN_API", "TASK", "COMMUNICATION_OP", "COMMUNICATION_TASK_INFO")
    )
    bars = one(asked, "SELECT count(*) FROM sqlite_master WHERE name = 'OVERLAP_ANALYSIS'")
    expected += one(asked, "SELECT count(*) FROM OVERLAP_ANALYSIS") if bars else 0
    assert len(stored.start_ns) == expected


def test_kernels_and_operations(stored: TraceTable, asked: sqlite3.Cursor) -> None:
    kernels = stored.kind == EventKind.KERNEL
    assert (int(computing(stored).sum()), int((kernels & stored.is_collective).sum())) == (187, 4)
    assert int(stored.dur_ns[computing(stored)].sum()) == one(
        asked, "SELECT sum(endNs - startNs) FROM TASK JOIN COMPUTE_TASK_INFO USING (globalTaskId)"
    )
    assert int(stored.dur_ns[kernels & stored.is_collective].sum()) == one(
        asked, "SELECT sum(endNs - startNs) FROM COMMUNICATION_OP"
    )
    assert (stored.launch[kernels] >= 0).all()
    assert (stored.operator[kernels] >= 0).all()


def test_the_queue_tells_the_same_operators(stored: TraceTable, rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what the database says of connections of operators, all 191 are found through the queue: the same ones."""
    none = np.empty(0, np.int64)
    monkeypatch.setattr(of_host, "_connections", lambda *arguments: (none, none))
    found = opened("alexnet_db_level1", rank)
    kernels = stored.kind == EventKind.KERNEL
    assert (found.operator[kernels] == stored.operator[kernels]).all()
    assert (found.operator[found.kind == EventKind.MEMCPY] >= 0).all()


def test_computing_is_that_of_the_tool(stored: TraceTable, rank: int) -> None:
    """Only in the first step: computing is the union of the kernels, to a nanosecond. Communication is that of operations."""
    path = next(profile("alexnet_db_level1", rank).rglob("analysis.db"))
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as connection:
        told = connection.execute("SELECT computing, communication FROM StepTraceTime").fetchone()
    connection.close()
    row = computing(stored)
    found = measure(union(stored.start_ns[row], stored.start_ns[row] + stored.dur_ns[row]))
    assert found == round(told[0] * 1000)
    row = (stored.kind == EventKind.KERNEL) & stored.is_collective
    assert int(stored.dur_ns[row].sum()) == round(told[1] * 1000)
    table = next(each for each in stored.reported_tables if each.name == "step_times")
    by_title = {column.title: column.values[0].as_py() for column in table.columns}
    assert (by_title["Step"], by_title["Computing"]) == ("50", round(told[0] * 1000))


@pytest.mark.parametrize(
    "kind",
    [EventKind.KERNEL, EventKind.OPERATOR, EventKind.PYTHON, EventKind.MODULE, EventKind.ANNOTATION, EventKind.MEMCPY],
)
def test_the_same_program_recorded_as_text(stored: TraceTable, written: TraceTable, kind: EventKind) -> None:
    assert names_of(stored, kind) == names_of(written, kind)


def test_calls_and_tasks_of_the_same_program(stored: TraceTable, written: TraceTable) -> None:
    # How often the host looks whether an event is over differs from one recording to the next.
    more = names_of(stored, EventKind.RUNTIME)
    more.subtract(names_of(written, EventKind.RUNTIME))
    assert {name for name, count in more.items() if count} <= {"AscendCL@aclrtQueryEventStatus"}
    more = names_of(stored, EventKind.DEVICE_ANNOTATION)
    more.subtract(names_of(written, EventKind.DEVICE_ANNOTATION))
    # Wholes of kernels and operations, which the trace view leaves out.
    assert (more["AI_CORE"], more["KERNEL_AICORE"]) == (9, 8)


def test_facts_of_the_same_program(stored: TraceTable, written: TraceTable) -> None:
    found, expected = ({column.key: column for column in trace.others} for trace in (stored, written))
    for key in (
        "Type",
        "Accelerator Core",
        "Block Dim",
        "Input Shapes",
        "Input Data Types",
        "Output Formats",
        "Context ID",
    ):
        texts = []
        for trace, columns in ((stored, found), (written, expected)):
            column = columns[key]
            kept = computing(trace)[column.row]
            values = column.value[kept].tolist()
            texts.append(Counter(trace.strings[each] if column.is_text else each for each in values))
        assert texts[0] == texts[1], key
    # Times are alike: the same kernels on the same device.
    for key in ("aicore_time(us)", "aiv_time(us)", "aic_mac_time(us)"):
        assert found[key].value.sum() == pytest.approx(expected[key].value.sum(), rel=0.05), key
    lost = {key for key in expected if key.endswith(("_ratio", "(us)", "_cycles"))} - set(found)
    # How long a kernel waited is in databases that another tool looked at.
    assert lost <= {"Wait Time(us)", "duration estimated(us)"}


def test_memory_of_the_same_program(stored: TraceTable, written: TraceTable, asked: sqlite3.Cursor) -> None:
    def blocks(trace: TraceTable) -> list[tuple[str, str, int, bool]]:
        columns = (trace.blocks.allocator, trace.blocks.name, trace.blocks.bytes, trace.blocks.end_ns)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return sorted((trace.strings[who], trace.strings[name], size, end == -1) for who, name, size, end in rows)

    assert blocks(stored) == blocks(written)
    assert len(stored.blocks.bytes) == one(asked, "SELECT count(*) FROM OP_MEMORY")
    assert int(stored.totals.allocated.max()) == one(asked, "SELECT max(totalAllocated) FROM MEMORY_RECORD")
    assert int(stored.totals.reserved.max()) >= one(asked, "SELECT max(totalReserved) FROM MEMORY_RECORD")


def test_arguments_of_the_same_program(stored: TraceTable, written: TraceTable) -> None:
    for key in ("shapes", "types"):
        texts = [
            Counter(trace.strings[each] for each in getattr(trace.operators, key).tolist() if each >= 0)
            for trace in (stored, written)
        ]
        assert texts[0] == texts[1], key
    assert int((stored.operators.stack >= 0).sum()) == int((written.operators.stack >= 0).sum()) == 316
    assert int((stored.forward >= 0).sum()) == int((written.forward >= 0).sum()) == 27
    assert len(stored.arrows.tail) == len(written.arrows.tail) == 159


def test_counters_have_the_names_of_the_same_program(stored: TraceTable, written: TraceTable) -> None:
    found, expected = (
        {trace.strings[int(name)] for name in np.unique(trace.counters.name)} for trace in (stored, written)
    )
    assert expected - found == {"QoS OTHERS"}, "the database of this version has no table of it"
    assert found <= expected


def by_core(trace: TraceTable) -> dict[str, tuple[int, int]]:
    """Kernels, and their nanoseconds, of each kind of core; operations of groups have had two names for none."""
    (column,) = (column for column in trace.others if column.key == "Accelerator Core")
    cores = {"HCCL": "COMMUNICATION"}
    found: dict[str, tuple[int, int]] = {}
    for row, value in zip(column.row.tolist(), column.value.tolist(), strict=True):
        core = cores.get(trace.strings[value], trace.strings[value])
        count, total = found.get(core, (0, 0))
        found[core] = (count + 1, total + int(trace.dur_ns[row]))
    return found


def test_pages_of_the_same_program(stored: TraceTable, written: TraceTable) -> None:
    """Exactly what a program does; and within a tenth how long that takes, for these are two recordings of it."""
    one, other = by_core(stored), by_core(written)
    assert {core: count for core, (count, _) in one.items()} == {core: count for core, (count, _) in other.items()}
    for core, (_, total) in one.items():
        assert total == pytest.approx(other[core][1], rel=0.1), core
    calls = []
    for trace in (stored, written):
        rows = Operators().part(trace, Params()).frames["operators"].data.to_pylist()
        calls.append({row["name"]: row["calls"] for row in rows})
        calls[-1].pop("(no operator)", None)
    assert calls[0] == calls[1] and len(calls[0]) == 133
    assert stored.steps.label == written.steps.label == ("50",)
    (length,), (expected,) = ((trace.steps.end_ns - trace.steps.start_ns).tolist() for trace in (stored, written))
    assert length == pytest.approx(expected, rel=0.1)
    facts = [Overview().part(trace, Params()).facts for trace in (stored, written)]
    for part, within in (("kernel", 0.02), ("communication", 0.1)):
        key = f"overview.breakdown.{part}_mean_ns"
        assert facts[0][key] == pytest.approx(facts[1][key], rel=within), part
    for allocator in ("PTA", "GE"):
        for what in ("allocated", "reserved"):
            peaks = []
            for trace in (stored, written):
                mine = np.array([trace.strings[each] == allocator for each in trace.totals.allocator.tolist()])
                peaks.append(int(getattr(trace.totals, what)[mine].max()))
            assert peaks[0] == peaks[1] > 0, (allocator, what)


def counted(trace: TraceTable, name: str, series: str) -> np.ndarray[Any, Any]:
    rows = [
        trace.strings[one] == name and trace.strings[other] == series
        for one, other in zip(trace.counters.name.tolist(), trace.counters.series.tolist(), strict=True)
    ]
    return np.asarray(trace.counters.value[rows])


def test_units_of_counters_are_those_of_the_text(stored: TraceTable, written: TraceTable) -> None:
    """MB are 2**20 bytes: so numbers of the database are the three decimals of the text. Hit rates are per cent in both."""
    name, series = "LLC 0 Read/Throughput", "Throughput(MB/s)"
    for trace, within in ((stored, 1e-5), (written, 1e-9)):
        values = counted(trace, name, series)
        assert len(values) == 13 and np.abs(values - np.round(values, 3)).max() < within
    other = counted(stored, name, series) * 2**20 / 1e6
    assert np.abs(other - np.round(other, 3)).max() > 1e-5
    for trace in (stored, written):
        rates = counted(trace, "LLC 0 Read/Hit Rate", "Hit Rate(%)")
        assert 50 < np.median(rates) < 100
