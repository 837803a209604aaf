"""What the views make of a small NPU profile: operator calls, shares of AI Core, kernels by type, core and one by one."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analysis.base import Params, Part
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.events.view import Events
from tb_plugin.views.kernels import reported_kernels
from tb_plugin.views.kernels.view import Kernels
from tb_plugin.views.operators.view import Operators
from tests.formats.ascend.folders import arrow, files, table_of, x
from tests.formats.ascend.test_timeline import BASE, HOST, NPU, at, names, task

HEAD = (
    "Step Id,Device_id,Task ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Num,"
    "Input Shapes,aic_mac_time(us),Mood"
)
ROWS = (  # name, type, core, start, duration, wait, blocks, shapes
    ("mm_1", "MatMulV2", "AI_CORE", 20, "10.5", "1.25", 24, '"""2,3;3,4"""', "7.5"),
    ("mm_2", "MatMulV2", "AI_CORE", 40, "4.5", "0", 24, '"""2,3;3,4"""', "3.5"),
    ("add", "Add", "AI_VECTOR_CORE", 50, "3", "2", 8, '"""2,4"""', "N/A"),
    ("topk", "TopKV2", "MIX_AIV", 60, "2", "0", 8, "", "N/A"),
    ("hcom_allReduce__1_0", "hcom_allReduce_", "COMMUNICATION", 70, "80", "0", 0, "", "N/A"),
)


def launched(name: str, us: float, by: float) -> list[Any]:
    start = BASE * 1000 + round(us * 1000)
    return arrow("async_npu", "torch_to_npu", start, (HOST, HOST, at(by)), (NPU, 2, at(us)))


@pytest.fixture(scope="module")
def trace() -> TraceTable:
    """Two products and an addition within the optimizer's step, of which one operator is a range of the program."""
    lines = [
        f"7,4,{i},{name},{kind},{core},{at(us)}\t,{dur},{wait},{blocks},{shapes},{mac},{'good' if i else ''}"
        for i, (name, kind, core, us, dur, wait, blocks, shapes, mac) in enumerate(ROWS)
    ]
    view = [
        *names(),
        x("ProfilerStep#7", HOST, HOST, at(0), 90, "cpu_op"),
        x("Optimizer.step#SGD.step", HOST, HOST, at(1), 12, "cpu_op"),
        x("aten::mm", HOST, HOST, at(2), 3, "cpu_op"),
        x("Enqueue", HOST, HOST, at(6), 1, "enqueue"),
        x("aten::add", HOST, HOST, at(8), 2, "cpu_op"),
        x("aten::topk", HOST, HOST, at(14), 2, "cpu_op"),
        *(task(name, us, float(dur), core) for name, _, core, us, dur, *_ in ROWS[:4]),
        *launched("mm_1", 20, 2), *launched("mm_2", 40, 2), *launched("add", 50, 8), *launched("topk", 60, 14),
    ]  # fmt: skip
    return table_of(files(trace_view=view, kernel_details="\r\n".join([HEAD, *lines]) + "\r\n"))


@pytest.fixture(scope="module")
def operators(trace: TraceTable) -> dict[str, dict[str, Any]]:
    rows = Operators().part(trace, Params()).frames["operators"].data.to_pylist()
    return {row["name"]: row for row in rows}


def kernels(trace: TraceTable, **extra: str) -> Part:
    return Kernels().part(trace, Params(extra=tuple(extra.items())))


def test_ranges_that_are_written_as_operators_are_calls(operators: dict[str, dict[str, Any]]) -> None:
    """What lies in them is taken from their own time, of runtime calls apart; steps are none."""
    step = operators["Optimizer.step#SGD.step"]
    assert (step["calls"], step["host_total_ns"], step["host_self_ns"], step["runtime_self_ns"]) == (
        1,
        12000,
        6000,
        1000,
    )
    assert (step["device_self_ns"], step["device_total_ns"]) == (0, 18000)
    assert operators["aten::mm"]["host_self_ns"] == 3000
    assert "ProfilerStep#7" not in operators


def test_rows_of_operators_lead_to_their_events(trace: TraceTable) -> None:
    def found(*where: tuple[str, str]) -> list[str]:
        frame = Events().part(trace, Params(where=where)).frames["instances"]
        return sorted(frame.data["name"].to_pylist())

    assert found(("name", "Optimizer.step#SGD.step"), ("kind", "operator")) == ["Optimizer.step#SGD.step"]
    assert found(("kernel_type", "MatMulV2"), ("core", "AI_CORE")) == ["mm_1", "mm_2"]
    assert found(("kernel_shapes", "2,4")) == ["add"]
    assert found(("kernel_shapes", ""), ("kernel_type", "TopKV2")) == ["topk"] and found(("core", "none")) == []
    assert found(("kind", "operator"), ("outermost", "true")) == ["Optimizer.step#SGD.step", "aten::topk"]


def test_shares_of_the_cores_that_the_tool_counts(operators: dict[str, dict[str, Any]]) -> None:
    """AI_CORE and AI_VECTOR_CORE count, a mix of both does not, as in the tool's own table."""
    found = {
        name: (row["core_eligible"], row["core_self_ratio"], row["core_total_ratio"]) for name, row in operators.items()
    }
    assert found["aten::mm"] == found["aten::add"] == (True, 1.0, 1.0)
    assert found["aten::topk"] == (False, 0.0, 0.0) and found["Optimizer.step#SGD.step"] == (True, 0.0, 1.0)


def test_columns_have_the_names_of_the_device(trace: TraceTable) -> None:
    frame = Operators().part(trace, Params()).frames["operators"]
    titles = {column.metric.key: (column.metric.title, column.hidden) for column in frame.columns}
    assert titles["core_self_ratio"] == ("AI Core self", False) and titles["core_eligible"] == (
        "AI Core eligible",
        True,
    )
    assert titles["matrix_self_ratio"] == ("Cube units self", True)


def test_kernels_by_type(trace: TraceTable) -> None:
    part = kernels(trace)
    rows = part.frames["kernels_by_type"].data.to_pylist()
    assert [(row["kernel_type"], row["core"], row["calls"], row["total_ns"]) for row in rows] == [
        ("hcom_allReduce_", "COMMUNICATION", 1, 80_000), ("MatMulV2", "AI_CORE", 2, 15_000),
        ("Add", "AI_VECTOR_CORE", 1, 3_000), ("TopKV2", "MIX_AIV", 1, 2_000),
    ]  # fmt: skip
    shapes = part.frames["kernels_by_type_shape"].data.to_pylist()
    assert [(row["kernel_type"], row["kernel_shapes"], row["calls"]) for row in shapes][1:] == [
        ("MatMulV2", "2,3;3,4", 2), ("Add", "2,4", 1), ("TopKV2", "", 1),
    ]  # fmt: skip
    cores: Any = part.payloads["cores"]
    assert {each.metric.key: each.value for each in cores.parts} == {
        "COMMUNICATION": 80_000, "AI_CORE": 15_000, "AI_VECTOR_CORE": 3_000, "MIX_AIV": 2_000
    }  # fmt: skip
    assert cores.total == 100_000 and all(each.link.params["group"] == "kernels_by_type" for each in cores.parts)


def test_single_kernels_have_every_column_of_the_file(trace: TraceTable) -> None:
    rows = {row["name"]: row for row in kernels(trace).frames["kernel_rows"].data.to_pylist()}
    first = rows["mm_1"]
    facts = {key.removeprefix("args."): value for key, value in first.items() if key.startswith("args.")}
    assert facts.items() >= {
        "Step Id": 7, "Task ID": 0, "Type": "MatMulV2", "Accelerator Core": "AI_CORE", "Wait Time(us)": 1.25, "Block Dim": 24,
        "Input Shapes": "2,3;3,4", "aic_mac_time(us)": 7.5, "Mood": None,
    }.items()  # fmt: skip
    assert (first["dur_ns"], first["device"], first["operator"]) == (10_500, "4", "aten::mm")
    assert rows["add"]["args.Mood"] == "good" and rows["add"]["args.aic_mac_time(us)"] is None


def test_of_many_kernels_the_longest_are_listed(trace: TraceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reported_kernels, "MOST_ROWS", 2)
    frame = kernels(trace).frames["kernel_rows"]
    assert frame.title == "Single kernels, the 2 longest of 5"
    assert frame.data["name"].to_pylist() == ["hcom_allReduce__1_0", "mm_1"]


def test_communication_may_be_left_out(trace: TraceTable) -> None:
    part = kernels(trace, communication="0")
    assert part.facts["kernels.calls"] == 4 and part.facts["kernels.communication_ns"] == 0
    assert {row["name"] for row in part.frames["kernels"].data.to_pylist()} == {"mm_1", "mm_2", "add", "topk"}
    assert [each.metric.key for each in part.payloads["cores"].parts] == ["AI_CORE", "AI_VECTOR_CORE", "MIX_AIV"]  # type: ignore[union-attr]
    assert Kernels().part_key(Params(extra=(("communication", "0"),))) != Kernels().part_key(Params())
    with pytest.raises(BadRequest):
        kernels(trace, communication="no")


def test_a_filter_by_what_the_file_says(trace: TraceTable) -> None:
    for where, count in (
        ((("args.Step Id", "7"), ("args.Type", "MatMulV2")), 2), ((("step", "7"),), 5), ((("step", "8"),), 0),
    ):  # fmt: skip
        answer: Any = Kernels().answer([kernels(trace)], Params(table="kernel_rows", where=where))
        assert answer.matched_rows == count and answer.total_rows == 5


def test_without_facts_there_are_no_tables_of_them() -> None:
    part = kernels(table_of(files(trace_view=[*names(), task("k", 1, 2)])))
    assert set(part.frames) == {"kernels", "kernels_by_launch", "copies", "kernel_rows"}
    (row,) = part.frames["kernel_rows"].data.to_pylist()
    assert row["args.Task Type"] == "AI_CORE"
