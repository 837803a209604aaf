"""The calls behind a row of a table, and everything about one event."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tests.builders import analysis, figures, kernel, memcpy, name_of, named, part, trace
from tests.conftest import SAMPLE_FILES, sample


@pytest.fixture(scope="module")
def table() -> TraceTable:
    builder = trace().step(1, 0, 100).op("aten::mm", 10, 20, ext=5, shapes=[[2, 8]], stack="a.py(1): f;b.py(2): g")
    builder.launches(kernel("gemm", 7, 40, grid=[1, 2, 3], block=[4, 1, 1], registers=9), at=12, dur=3)
    builder.op("aten::mm", 50, 30, shapes=[[4]]).launches(kernel("gemm", 9, 70, grid=[9, 9, 9], block=[4, 1, 1]))
    builder.on_device(memcpy(4, 90, "Memcpy HtoD", bytes=11), corr=999)
    builder.python("train.py(3): main", 0, 100, id=1).module("Linear", 45, 40, id=2, parent=1)
    builder.step(2, 200, 50).op("aten::mm", 210, 5).op("aten::add", 220, 5)
    for i in range(3):
        builder.launches(kernel("next", 1, 220 + i))
    return builder.table()


def found(table: TraceTable, *where: tuple[str, str], steps: tuple[str, ...] | None = None) -> list[tuple[str, int]]:
    """Name and start in microseconds of the instances, longest first."""
    data = part(table, "events", steps, where=where).frames["instances"].data.to_pylist()
    return [(r["name"], r["start_ns"] // 1000) for r in data]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ([("name", "aten::mm")], [("aten::mm", 50), ("aten::mm", 10), ("aten::mm", 210)]),
        ([("name", "aten::mm"), ("input_shape", "[[2, 8]]")], [("aten::mm", 10)]),
        ([("name", "aten::mm"), ("input_shape", "")], [("aten::mm", 210)]),
        ([("operator", "aten::mm"), ("kind", "kernel")], [("gemm", 70), ("gemm", 40)]),
        ([("operator", "(no operator)")], [("Memcpy HtoD", 90)]),
        ([("name", "gemm"), ("grid", "[9, 9, 9]")], [("gemm", 70)]),
        ([("block", "[4, 1, 1]")], [("gemm", 70), ("gemm", 40)]),
        ([("kind", "memcpy")], [("Memcpy HtoD", 90)]),
        ([("category", "gpu_memcpy")], [("Memcpy HtoD", 90)]),
        ([("module", "Linear_0")], [("nn.Module: Linear_0", 45)]),
        ([("name", "no such name")], []),
        ([("operator", "no such operator")], []),
    ],
    ids=lambda value: None,
)
def test_filters(table: TraceTable, where: list[tuple[str, str]], expected: list[tuple[str, int]]) -> None:
    assert found(table, *where) == expected


def test_a_module_that_lightning_wrote_is_found_without_its_prefix() -> None:
    table = trace().event("user_annotation", "[pl][module]Linear: head", 5, 10, 1, 1).table()
    assert found(table, ("module", "Linear: head")) == [("[pl][module]Linear: head", 0)]


def test_steps_and_filters(table: TraceTable) -> None:
    assert found(table, ("name", "aten::mm"), steps=("2",)) == [("aten::mm", 210)]


def test_without_filter_all_events_are_there(table: TraceTable) -> None:
    assert len(found(table)) == len(table)


@pytest.mark.parametrize("where", [("nothing", "x"), ("kind", "nothing")])
def test_a_wrong_filter_is_said(table: TraceTable, where: tuple[str, str]) -> None:
    with pytest.raises(BadRequest):
        part(table, "events", where=(where,))


def test_summary_and_distribution(table: TraceTable) -> None:
    payloads: Any = part(table, "events", where=(("name", "aten::mm"),)).payloads
    summary = {figure.metric.key: figure.value for figure in payloads["summary"].figures}
    assert summary["calls"] == 3 and summary["total_ns"] == 55_000
    assert (summary["min_ns"], summary["p50_ns"], summary["max_ns"]) == (5_000, 20_000, 30_000)
    distribution = payloads["distribution"]
    assert sum(distribution.lines[0].values) == 3
    assert len(distribution.x) == len(distribution.lines[0].values) + 1


@pytest.mark.parametrize(
    ("where", "title"),
    [
        ((("kind", "operator"),), "CPU durations"),
        ((("kind", "kernel"),), "GPU durations"),
        ((), "Durations"),
        ((("name", "none"),), "Durations"),
    ],
)
def test_durations_say_whose_they_are(table: TraceTable, where: tuple[tuple[str, str], ...], title: str) -> None:
    payloads: Any = part(table, "events", where=where).payloads
    assert payloads["distribution"].title == title


def test_durations_are_of_the_kind_of_device() -> None:
    builder = trace().device(0, name="Ascend910B").op("aten::mm", 0, 20).launches(kernel("gemm", 7, 40))
    payloads: Any = part(builder.table(), "events", where=(("kind", "kernel"),)).payloads
    assert payloads["distribution"].title == "NPU durations"


@pytest.mark.parametrize("durations", [(5,), (5, 5), (0, 0), (0, 1), (1, 10_000), (0, 7, 10_000), (19, 20)])
def test_every_call_is_in_the_distribution(durations: tuple[int, ...]) -> None:
    builder = trace()
    for i, dur in enumerate(durations):
        builder.op("a", 20_000 * i, dur)
    payloads: Any = part(builder.table(), "events").payloads
    assert sum(payloads["distribution"].lines[0].values) == len(durations)
    assert payloads["distribution"].x == sorted(payloads["distribution"].x)


def about(table: TraceTable, event: int) -> dict[str, dict[str, Any]]:
    payloads = part(table, "events", extra=(("event", str(event)),)).payloads
    return {name: {f.metric.key: f.value for f in payload.figures} for name, payload in payloads.items()}


def test_everything_about_a_kernel(table: TraceTable) -> None:
    event = next(i for i in range(len(table)) if name_of(table, i) == "gemm")
    facts = about(table, event)
    assert facts["event"]["grid"] == "[1, 2, 3]" and facts["event"]["registers"] == 9
    assert facts["event"]["launch_delay_ns"] == 28_000
    assert facts["launch"]["name"] == "cudaLaunchKernel" and facts["operator"]["name"] == "aten::mm"
    assert facts["stack"]["call_stack"] == "a.py(1): f;b.py(2): g"
    assert facts["same_name"]["calls"] == 2


def test_arrows_lead_from_event_to_event_and_back(table: TraceTable) -> None:
    kernel_row = next(i for i in range(len(table)) if name_of(table, i) == "gemm")
    launch = about(table, kernel_row)["launch"]["event"]
    assert launch == table.launch[kernel_row]
    assert about(table, launch)["launched"]["event"] == kernel_row
    assert about(table, kernel_row)["operator"]["event"] == table.operator[kernel_row]
    assert "launched" not in about(table, kernel_row) and "launch" not in about(table, launch)


def test_forward_and_backward_lead_to_each_other() -> None:
    builder = trace().op("aten::mm", 0, 10, sequence=7).op("MmBackward0", 20, 10, tid=2, sequence=7, forward_thread=1)
    table = builder.table()
    forward, backward = (next(i for i in range(2) if name_of(table, i) == name) for name in ("aten::mm", "MmBackward0"))
    assert about(table, forward)["backward"]["event"] == backward
    assert about(table, backward)["forward"]["event"] == forward


def brief(table: TraceTable, name: str) -> dict[str, str]:
    return figures(part(table, "events", extra=(("event", str(named(table, name))), ("brief", "1"))).payloads["brief"])


def test_work_of_the_backward_pass_leads_to_the_forward_operator_and_its_line() -> None:
    builder = trace().python("/home/me/train.py(7): step", 0, 100, id=1).op("aten::mm", 10, 10, sequence=7)
    builder.launches(kernel("forward", 5, 30))
    builder.op("MmBackward0", 50, 20, tid=2, sequence=7, forward_thread=1).op("aten::t", 52, 5, tid=2)
    table = builder.launches(kernel("back", 5, 60), at=53, dur=1).op("alone", 200, 5, tid=3).table()
    origin = {"forward_operator": "aten::mm", "code_line": "/home/me/train.py(7): step"}
    for name in ("MmBackward0", "aten::t", "back"):
        payloads = about(table, named(table, name))
        assert payloads["forward"]["event"] == named(table, "aten::mm")
        assert payloads["event"]["code_line"] == origin["code_line"]
    assert brief(table, "back") == {"operator": "aten::t", **origin}
    assert brief(table, "forward") == {"operator": "aten::mm", "code_line": origin["code_line"]}
    assert brief(table, "alone") == {}


def test_the_python_call_around_an_event_its_operator_or_its_launch() -> None:
    builder = trace().python("f", 0, 60, id=1).python("g", 5, 40, id=2, parent=1).op("aten::mm", 10, 20)
    table = builder.launches(kernel("gemm", 5, 80)).op("alone", 70, 5).table()
    rows = {name_of(table, row): row for row in range(len(table))}
    for name in ("aten::mm", "gemm", "cudaLaunchKernel"):
        assert about(table, rows[name])["python"]["event"] == rows["g"]
    assert about(table, rows["g"])["python"]["event"] == rows["f"]
    assert "python" not in about(table, rows["alone"]) and "python" not in about(table, rows["f"])


def test_a_stack_that_was_not_recorded_is_the_python_calls_around(table: TraceTable) -> None:
    event = next(i for i in range(len(table)) if name_of(table, i) == "aten::mm" and table.start_ns[i] == 50_000)
    assert about(table, event)["stack"]["call_stack"] == "nn.Module: Linear_0;train.py(3): main"


def test_every_event_can_be_asked(table: TraceTable) -> None:
    for event in range(len(table)):
        assert about(table, event)["event"]["dur_ns"] == table.dur_ns[event]


@pytest.mark.parametrize("event", ["-1", "99999", "x", "1e3", "²", "9" * 5000])
def test_an_event_that_does_not_exist(table: TraceTable, event: str) -> None:
    with pytest.raises(BadRequest):
        part(table, "events", extra=(("event", event),))


def test_where_is_not_applied_to_the_list_again(table: TraceTable) -> None:
    events = analysis("events")
    params = Params(where=(("kind", "kernel"),), table="instances")
    answer: Any = events.answer([events.part(table, params)], params)
    assert [r["name"] for r in answer.rows] == ["gemm", "gemm", "next", "next", "next"]
    assert answer.matched_rows == answer.total_rows == 5


def test_a_query_selects_the_listed_events() -> None:
    builder = trace().op("aten::mm", 0, 10).launches(kernel("gemm", 7, 40)).op("aten::mm", 50, 30)
    found = part(builder.table(), "events", search="dur>8us name:mm").frames["instances"].data.to_pylist()
    assert [(row["name"], row["dur_ns"]) for row in found] == [("aten::mm", 30_000), ("aten::mm", 10_000)]


def module_path(table: TraceTable, event: int) -> str:
    return str(about(table, event).get("modules", {}).get("module_path", ""))


def test_the_modules_around_an_event() -> None:
    builder = trace().module("Net", 0, 90, id=1).module("Linear", 10, 40, id=2, parent=1)
    builder.op("aten::mm", 20, 10, sequence=7).launches(kernel("gemm", 5, 60), at=22, dur=1)
    builder.op("outside", 95, 4).launches(kernel("alone", 5, 100))
    builder.op("MmBackward0", 200, 20, tid=2, sequence=7, forward_thread=1)
    builder.op("aten::t", 202, 5, tid=2).launches(kernel("back", 5, 230), at=203)
    table = builder.table()
    inner = dict.fromkeys(("aten::mm", "gemm", "MmBackward0", "aten::t", "back"), "Net_0;Linear_0")
    expected = {**inner, "outside": "", "alone": "", "nn.Module: Net_0": "", "nn.Module: Linear_0": "Net_0"}
    assert {name: module_path(table, named(table, name)) for name in expected} == expected


@pytest.mark.parametrize(
    "name", [n for n in SAMPLE_FILES if "resnet" in n or "gpu" in n], ids=lambda n: n.split(".")[0]
)
def test_modules_of_a_sample_are_those_that_the_module_view_names(name: str) -> None:
    table = sample(name)
    modules = [i for i in range(len(table)) if table.kind[i] == EventKind.MODULE]
    start, end, track = table.start_ns.tolist(), table.end_ns.tolist(), table.track.tolist()
    chosen = [
        *range(0, len(table), len(table) // 40 + 1),
        *np.flatnonzero(table.kind == EventKind.KERNEL)[:40].tolist(),
    ]
    for event in chosen:
        source = event if not table.tracks[table.track[event]].is_device else int(table.launch[event])
        around = (
            []
            if source < 0
            else [m for m in modules if m < source and track[m] == track[source] and end[m] > start[source]]
        )
        if around:
            expected = ";".join(str(name_of(table, m)).removeprefix("nn.Module: ") for m in around)
            assert module_path(table, event) == expected


def test_everything_recorded_is_told() -> None:
    args = {
        "Collective name": "allreduce",
        "dtype": "Float",
        "In msg nelems": 100,
        "Out msg nelems": 100,
        "Group size": 4,
        "Process Group Name": "0",
        "Process Group Description": "default_pg",
        "Process Group Ranks": "[0, 1, 2, 3]",
        "Seq": 11,
    }
    builder = trace().op("c10d::allreduce_", 0, 50, sequence=9, forward_thread=3)
    builder.op("record_param_comms", 5, 30, ext=77, **args).launches(kernel("ncclKernel", 20, 60))
    builder.python("f", 100, 5, id=4, parent=3)
    table = builder.table()
    for name in ("record_param_comms", "ncclKernel"):
        assert about(table, named(table, name))["collective"] == {
            "collective_name": "allreduce",
            "dtype": "Float",
            "in_elements": 100,
            "out_elements": 100,
            "group_size": 4,
            "group": "0",
            "group_description": "default_pg",
            "group_ranks": "[0, 1, 2, 3]",
            "sequence": 11,
        }
    assert "collective" not in about(table, named(table, "c10d::allreduce_"))
    outer = about(table, named(table, "c10d::allreduce_"))["event"]
    assert (outer["autograd_sequence"], outer["forward_thread"]) == ("9", "3")
    assert about(table, named(table, "record_param_comms"))["event"]["external_id"] == "77"
    assert about(table, named(table, "ncclKernel"))["event"]["stream"] == "7"
    called = about(table, named(table, "f"))["event"]
    assert (called["python_id"], called["python_parent_id"]) == ("4", "3")


def test_the_first_correlation_is_one() -> None:
    table = trace().op("aten::mm", 0, 9).on_device(kernel("gemm", 5, 2), corr=1).table()
    row = int(np.flatnonzero(table.device >= 0)[0])
    event: Any = part(table, "events", extra=(("event", str(row)),)).payloads["event"]
    assert {figure.metric.key: figure.value for figure in event.figures}["correlation"] == "1"
