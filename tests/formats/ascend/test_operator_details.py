"""``operator_details.csv`` without a trace view: its calls make the tables of Operators, whatever the file looks like."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.base import Params, Part
from tb_plugin.formats.ascend.csv_table import read_table
from tb_plugin.formats.ascend.vendor_tables import operator_calls
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.reported_operators import reported_operators
from tb_plugin.views.operators.view import Operators
from tests.depth import examples
from tests.formats.ascend.folders import codes, files, raw_of, table_of

TIMES = (
    "Host Self Duration(us),Host Total Duration(us),Device Self Duration(us),Device Total Duration(us),"
    "Device Self Duration With AICore(us),Device Total Duration With AICore(us)"
)
HEAD = f"Name,Input Shapes,Call Stack,{TIMES}"
CALLS = (
    'aten::mm,"2,3;\n3,4","a.py(1): f;\nb.py(2): g",4.5,9.125,0,12.5,0,12.5\n'
    'aten::mm,"2,3;\n3,4","a.py(1): f;\nb.py(2): g",5.5,5.5,10,10,7.5,7.5\n'
    'aten::to,";\n;\n",,1,1,,N/A,,\n'
)


def part(content: str) -> Part:
    return Operators().part(
        table_of(files(operator_details=content, step_trace_time="Step,Computing\n1,2\n")), Params()
    )


def rows(found: Part, name: str) -> list[dict[str, Any]]:
    return list(found.frames[name].data.to_pylist())


def test_calls_by_name_by_shapes_and_by_stack() -> None:
    found = part(f"{HEAD}\n{CALLS}")
    assert (found.facts["operators.calls"], found.facts["operators.names"]) == (3, 2)
    mm, to = rows(found, "operators")
    assert (mm["name"], mm["calls"], mm["host_self_ns"], mm["host_total_ns"]) == ("aten::mm", 2, 10_000, 14_625)
    assert (mm["device_self_ns"], mm["device_total_ns"]) == (10_000, 22_500)
    assert (mm["core_self_ratio"], mm["core_total_ratio"], mm["core_eligible"]) == (0.75, 20 / 22.5, True)
    assert (to["device_self_ns"], to["core_eligible"], to["has_stack"]) == (0, False, False)
    assert {row["input_shape"] for row in rows(found, "operators_by_shape")} == {"[[2, 3], [3, 4]]", None}
    assert [(row["call_stack"], row["calls"]) for row in rows(found, "stacks")] == [("a.py(1): f;b.py(2): g", 2)]


@pytest.mark.parametrize(
    ("content", "calls", "host_ns"),
    [
        ("Host Self Duration(us),Name\n4.5,aten::mm\n", 1, 4500),
        ("Name\naten::mm\n", 1, 0),
        (f"{HEAD}\naten::mm,,,soon,1,1,1,1,1\n", 1, 0),
        (f"{HEAD}\naten::mm,,,1\naten::mm,,,2,2,0,0,0,0\n", 1, 2000),
        (f"{HEAD}\n,,,3,3,0,0,0,0\n", 1, 3000),
    ],
    ids=["another order", "names alone", "no time", "a row cut short", "no name"],
)
def test_odd_files(content: str, calls: int, host_ns: int) -> None:
    found = part(content)
    assert found.facts["operators.calls"] == calls
    assert sum(row["host_self_ns"] for row in rows(found, "operators")) == host_ns


def test_what_is_odd_is_told() -> None:
    assert "bad_row" in codes(raw_of(files(operator_details=f"{HEAD}\na,b\n{CALLS}")), "operator_details.csv")
    assert "bad_cell" in codes(raw_of(files(operator_details=f"{HEAD}\na,,,soon,1,1,1,1,1\n")), "operator_details.csv")
    lacking = files(operator_details="Host Self Duration(us)\n1\n", step_trace_time="Step,Computing\n1,2\n")
    assert "missing_columns" in codes(raw_of(lacking), "operator_details.csv")


@examples(15, 500)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 10**6), st.integers(0, 10**6)), max_size=20))
def test_sums_are_those_of_the_rows(calls: list[tuple[str, int, int]]) -> None:
    lines = "".join(
        f"{name},,,{own / 1000:.3f},{own / 1000:.3f},{dev / 1000:.3f},{dev / 1000:.3f},0,0\n"
        for name, own, dev in calls
    )
    log = IssueLog()
    table = read_table([f"{HEAD}\n{lines}".encode()], log)
    assert table is not None
    stated = reported_operators([operator_calls("operator_details.csv", table)])
    assert stated is not None and stated["host_self_ns"].to_pylist() == [own for _, own, _ in calls]
    assert stated["device_total_ns"].to_pylist() == [dev for _, _, dev in calls] and not log.issues()
