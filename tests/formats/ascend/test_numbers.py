"""The numbers that the specification names, through our views; what the tool sums up itself; databases against text files."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.kernels.view import Kernels
from tests.depth import needs_time
from tests.formats.ascend.folders import RECORDED, needs_recorded
from tests.formats.ascend.golden import part, table
from tests.samples import OURS, made


def by_type(trace: TraceTable) -> dict[tuple[str, str], tuple[int, int]]:
    """Calls and time by type and core, without communication."""
    rows = Kernels().part(trace, Params(extra=(("communication", "0"),))).frames["kernels_by_type"].data.to_pylist()
    return {(row["kernel_type"], row["core"]): (row["calls"], row["total_ns"]) for row in rows}


@needs_recorded
@needs_time
def test_qwen() -> None:
    counts = {
        worker: part("kernels", "qwen3_pp2_dp2_level2", worker).facts["kernels.calls"]
        for worker in ("rank_0", "rank_2")
    }
    assert counts == {"rank_0": 2463, "rank_2": 2587}
    devices = [device.id for worker in ("rank_0", "rank_2") for device in table("qwen3_pp2_dp2_level2", worker).devices]
    assert len(devices) == 2 and set(devices) <= {"0", "1", "4", "5"}
    rows = part("kernels", "qwen3_pp2_dp2_level2", "rank_0").frames["kernel_rows"].data
    assert set(rows["args.Step Id"].to_pylist()) <= {13, None} and 13 in rows["args.Step Id"].to_pylist()


@needs_recorded
@needs_time
@pytest.mark.parametrize(
    ("run", "worker"),
    [
        ("alexnet_text_level1", "rank_0"),
        ("alexnet_text_level1", "rank_1"),
        ("qwen3_pp2_dp2_level2", "rank_0"),
        ("qwen3_pp2_dp2_level2", "rank_2"),
    ],
)
def test_the_tools_own_statistics_are_our_groups(run: str, worker: str) -> None:
    trace = table(run, worker)
    compare(trace)
    if (run, worker) == ("alexnet_text_level1", "rank_0"):
        (stated,) = (each for each in trace.reported_tables if each.name == "op_statistic")
        (total,) = (column.values.to_pylist() for column in stated.columns if column.key == "total_time_us")
        assert (
            round(sum(ns for _, ns in by_type(trace).values()) / 1000, 2) == 8873.74 and round(sum(total), 2) == 8873.75
        )


@pytest.mark.parametrize("rank", [0, 1])
def test_the_sample_s_statistics_are_our_groups(rank: int) -> None:
    (name,) = (each.name for each in OURS if each.name.startswith(f"synthetic_ascend/rank_{rank}_"))
    compare(made(name))


def compare(trace: TraceTable) -> None:
    """``op_statistic.csv`` leaves communication out; its times lost up to a nanosecond at each kernel."""
    (stated,) = (each for each in trace.reported_tables if each.name == "op_statistic")
    cells = {column.key: column.values.to_pylist() for column in stated.columns}
    columns = (cells[key] for key in ("op_type", "core_type", "count", "total_time_us"))
    theirs = {(kind, core): (count, total) for kind, core, count, total in zip(*columns, strict=True)}
    ours = by_type(trace)
    assert theirs.keys() == ours.keys()
    for key, (count, total) in theirs.items():
        assert ours[key][0] == count and ours[key][1] / 1000 == pytest.approx(total, abs=0.001 * count + 0.001), key


@needs_recorded
@needs_time
def test_kernels_of_a_database_are_its_rows() -> None:
    """To the nanosecond: type, core, calls and time, by direct SQL."""
    (path,) = RECORDED.glob("alexnet_db_level1/rank_0_*/*/ascend_pytorch_profiler_*.db")
    query = """SELECT type.value, core.value, count(*), sum(endNs - startNs) FROM TASK JOIN COMPUTE_TASK_INFO AS info
        USING (globalTaskId) JOIN STRING_IDS AS type ON type.id = info.opType JOIN STRING_IDS AS core
        ON core.id = info.taskType GROUP BY type.value, core.value"""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        theirs = {(kind, core): (count, total) for kind, core, count, total in connection.execute(query)}
    assert by_type(table("alexnet_db_level1", "rank_0")) == theirs and len(theirs) > 20


@needs_recorded
@needs_time
@pytest.mark.parametrize("worker", ["rank_0", "rank_1"])
def test_a_database_has_the_operators_of_its_text_twin(worker: str) -> None:
    """The same 859 calls of 133 names; shares of AI Core differ as times of two recordings do."""
    found = []
    for run in ("alexnet_text_level1", "alexnet_db_level1"):
        rows = part("operators", run, worker).frames["operators"].data.to_pylist()
        found.append({row["name"]: row for row in rows if row["calls"]})
    written, stored = found
    assert {name: row["calls"] for name, row in written.items()} == {name: row["calls"] for name, row in stored.items()}
    assert sum(row["calls"] for row in stored.values()) == 859 and len(stored) == 133
    for name, row in stored.items():
        assert row["core_eligible"] == written[name]["core_eligible"], name
        assert row["core_self_ratio"] == pytest.approx(written[name]["core_self_ratio"], abs=0.1), name
