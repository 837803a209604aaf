"""What a profile states comes through the model and its file to a page of its own, which other profiles do not have."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.analysis.base import Params
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.extra_columns import (
    AllocatorBlocks,
    AllocatorTotals,
    OpenColumn,
    ReportedColumn,
    ReportedSteps,
    ReportedTable,
)
from tb_plugin.model.trace.report import Issue
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import RawTrace, TraceTable
from tb_plugin.model_kinds.trace import TraceModel
from tb_plugin.service.workers.parse import read_info
from tests.builders import analysis, part, read, rows, trace


def stated() -> RawTrace:
    """Two operators at 100 and 50 us, and beside them all that a profile may state."""
    raw = read(trace().op("late", 100, 10).op("early", 50, 5).bytes())
    texts = [*raw.strings, "PTA", "GE", "aten::add"]
    pta, ge, add = range(len(raw.strings), len(raw.strings) + 3)
    ids = np.int32
    return replace(
        raw,
        strings=StringTable(texts),
        reported_steps=ReportedSteps(("7", "8"), np.array([50_000, 90_000]), np.array([90_000, 120_000])),
        others=(OpenColumn("aic_mac_ratio", np.array([0], ids), np.array([0.25]), False, "MAC ratio", "%"),),
        reported_tables=(
            ReportedTable(
                "op_statistic",
                "Operators as stated",
                (
                    ReportedColumn("op", "OP Type", "", pa.array(["MatMul", "Add"])),
                    ReportedColumn("time", "Total Time", "us", pa.array([12.5, None])),
                ),
            ),
        ),
        blocks=AllocatorBlocks(
            start_ns=np.array([70_000, 60_000]),
            end_ns=np.array([-1, 65_000]),
            bytes=np.array([512, 1024]),
            name=np.array([add, -1], ids),
            allocator=np.array([pta, ge], ids),
            device_type=np.array([20, 20], ids),
            device_id=np.array([4, 4], ids),
        ),
        totals=AllocatorTotals(
            time_ns=np.array([60_000, 60_000]),
            allocated=np.array([1024, 0]),
            reserved=np.array([2048, -1]),
            active=np.array([-1, -1]),
            allocator=np.array([ge, pta], ids),
            device_type=np.array([20, 20], ids),
            device_id=np.array([4, 4], ids),
        ),
    )


@pytest.fixture(params=["made", "kept"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TraceTable:
    """As it was assembled, and as it comes out of its file."""
    made = assemble(stated())
    if request.param == "made":
        return made
    TraceModel().write(made, str(tmp_path / "t.arrow"))
    return TraceModel().read(str(tmp_path / "t.arrow"))


def test_steps_that_are_stated_are_the_steps(table: TraceTable) -> None:
    steps = table.steps
    assert (steps.label, steps.recorded) == (("7", "8"), True)
    assert (steps.start_ns.tolist(), steps.end_ns.tolist()) == ([0, 40_000], [40_000, 70_000])
    assert [row["step"] for row in rows(table, "overview", "steps")] == ["7", "8"]


def test_a_column_of_its_own_follows_its_row(table: TraceTable) -> None:
    (column,) = table.others
    assert [table.strings[int(table.name[row])] for row in column.row] == ["late"]
    told = {f.metric.title: f.value for f in part(table, "events", extra=(("event", "1"),)).payloads["event"].figures}  # type: ignore[union-attr]
    assert told["MAC ratio (%)"] == 0.25


def test_the_tables_as_they_are(table: TraceTable) -> None:
    assert rows(table, "stated", "op_statistic") == [
        {"op": "MatMul", "time": 12.5, "stated_row": 0},
        {"op": "Add", "time": None, "stated_row": 1},
    ]
    frame = part(table, "stated").frames["op_statistic"]
    assert [column.metric.title for column in frame.columns] == ["OP Type", "Total Time (us)", "Row"]
    page = analysis("stated").answer([part(table, "stated")], Params(table="op_statistic", search="matm"))
    assert page.matched_rows == 1  # type: ignore[union-attr]


def test_blocks_and_totals_of_several_allocators(table: TraceTable) -> None:
    blocks = rows(table, "stated", "allocator_blocks")
    keys = ("stated_allocator", "stated_block_name", "stated_bytes", "stated_start_ns", "stated_end_ns")
    assert [tuple(row[key] for key in keys) for row in blocks] == [
        ("GE", None, 1024, 10_000, 15_000),
        ("PTA", "aten::add", 512, 20_000, None),
    ]
    totals = rows(table, "stated", "allocator_totals")
    assert [(row["stated_allocator"], row["stated_allocated"], row["stated_reserved"]) for row in totals] == [
        ("GE", 1024, 2048),
        ("PTA", 0, None),
    ]


def test_other_profiles_do_not_have_the_view() -> None:
    view = analysis("stated")
    assert view.traits.hidden and view.missing(trace().op("a", 0, 1).table()) is not None
    assert view.missing(assemble(stated())) is None
    assert len({each.id for each in registry.analyses()}) == len(registry.analyses())


def test_an_issue_names_the_file_that_it_was_met_in() -> None:
    raw = read(trace().op("a", 0, 1).bytes())
    issue = Issue("bad_row", "dropped", "rows without a time were skipped", 2, file="op_statistic.csv")
    table = assemble(replace(raw, report=replace(raw.report, issues=(issue,))))
    assert [i.file for i in read_info(table.report).issues] == ["op_statistic.csv"]
    told = json.dumps([n.text for n in part(table, "overview").payloads["data_quality"].notices])  # type: ignore[union-attr]
    assert "op_statistic.csv: rows without a time were skipped" in told
