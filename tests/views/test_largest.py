"""The first sentence: its name, caller, line and evidence."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figures, Link
from tests.builders import TraceBuilder, kernel, memcpy, model, part, payload_of, trace
from tests.conftest import UNLIKE, sample

LOADER = "enumerate(DataLoader)#X.__next__"


def said(builder: TraceBuilder) -> list[dict[str, Any]]:
    """The figures of each sentence."""
    payload: Any = part(builder.table(), "overview").payloads.get("largest_costs")
    return [{f.metric.key: f.value for f in notice.figures} for notice in payload.notices] if payload else []


def sentences(table: TraceTable) -> list[str]:
    payload: Any = part(table, "overview").payloads["largest_costs"]
    return [notice.text for notice in payload.notices]


def step() -> TraceBuilder:
    return trace().device(0).step(1, 0, 1000)


def test_a_copy_that_holds_up_the_host_is_named_with_its_caller() -> None:
    """U2: half of the step in one copy under aten::to."""
    builder = step().op("aten::to", 100, 700).launches(memcpy(20, 780), at=110, dur=650, name="cudaMemcpyAsync")
    first = said(builder)[0]
    assert first["largest_ns"] == 980_000 and first["largest_share"] == 0.98, "all but the copy on the GPU"
    assert (first["largest_name"], first["largest_caller"]) == ("cudaMemcpyAsync", "aten::to")
    assert first["largest_name_ns"] == 650_000


def test_the_line_of_most_of_the_time_is_named() -> None:
    builder = step().op("aten::to", 100, 300).launches(memcpy(1, 20), at=110, dur=200, name="cudaMemcpyAsync")
    builder.op("aten::to", 500, 400).launches(memcpy(1, 480), at=510, dur=250, name="cudaMemcpyAsync")
    builder.python("eval.py(3): show", 90, 320, id=1).python("train.py(7): step", 490, 420, id=2)
    builder.python("torch/_tensor.py(9): to", 495, 410, id=3, parent=2)
    assert said(builder)[0]["largest_line"] == "train.py(7): step"
    kernels = (
        trace().step(1, 0, 100).python("train.py(7): step", 0, 50).op("aten::mm", 1, 2).launches(kernel("k", 90, 5))
    )
    assert said(kernels)[-1]["largest_line"] == "train.py(7): step"
    # Where the line of most of it is not known another one is not blamed for it.
    kernels.op("aten::mm", 60, 2).launches(kernel("k", 100, 95))
    assert "largest_line" not in said(kernels)[-1]


def test_one_sentence_names_the_loader_and_how_busy_the_gpu_is() -> None:
    builder = step().annotation(LOADER, 0, 330).op("aten::mm", 340, 10).launches(kernel("gemm", 550, 360))
    (only,) = said(builder)
    assert (only["limit"], only["largest_name"], only["largest_ns"]) == ("data loading", LOADER, 330_000)
    assert only["utilization"] == 0.55


def test_a_cpu_only_program_is_limited_by_its_loader_from_a_fifth_on() -> None:
    loading = trace().step(1, 0, 1000).annotation(LOADER, 0, 200).op("aten::mm", 200, 800)
    assert [each["largest_name"] for each in said(loading)] == [LOADER]
    computing = trace().step(1, 0, 1000).annotation(LOADER, 0, 199).op("aten::mm", 199, 801)
    assert [(each["limit"], each["largest_name"]) for each in said(computing)] == [("CPU only", "aten::mm")]


def evidence(table: TraceTable) -> list[Link]:
    payload: Any = part(table, "overview").payloads.get("largest_costs")
    return [notice.evidence for notice in payload.notices] if payload else []


def _name(link: Link) -> str:
    """The name of a row that a link shows: by its filter, or by a search."""
    return link.params.get("where", link.params.get("search", "")).removeprefix("name:")


def test_a_named_range_is_looked_for_among_the_phases() -> None:
    builder = trace().step(1, 0, 1000).annotation("pack 1", 0, 900).annotation("pack 2", 900, 50)
    (link,) = evidence(builder.op("aten::mm", 100, 20).table())
    assert (link.view, link.params["form"], link.params["search"]) == ("phases", "table", "pack *")


def test_copies_that_nothing_hides_are_no_kernels() -> None:
    table = step().op("aten::to", 0, 10).launches(memcpy(800, 20), at=2, dur=5, name="cudaMemcpyAsync").table()
    (link,) = evidence(table)
    assert (link.view, link.params["group"]) == ("kernels", "copies")
    names = {name: part(table, "kernels").frames[name].data["name"].to_pylist() for name in ("kernels", "copies")}
    assert names == {"kernels": [], "copies": [_name(link)]}


def test_what_holds_the_device_up_opens_at_its_longest_event() -> None:
    builder = step().annotation(LOADER, 0, 100).annotation(LOADER, 200, 300)
    (link,) = evidence(builder.op("aten::mm", 600, 10).launches(kernel("k", 300, 620)).table())
    assert link.view == "timeline" and link.params["search"] == LOADER and link.params["gaps"] == "1"
    # 300 us from 200 us on, and half as much before and after it.
    assert (link.params["start_ns"], link.params["end_ns"]) == ("50000", "650000")


@pytest.mark.parametrize("name", UNLIKE)
def test_evidence_of_a_sample_is_where_it_leads(name: str) -> None:
    table = sample(name)
    for link in evidence(table):
        if link.view == "timeline" and link.params:
            assert table.strings[table.name[int(link.params["event"])]] == link.params["search"]
        elif link.params:
            found = part(table, link.view)
            names = (
                found.frames[link.params.get("group", {"stacks": "functions"}.get(link.view, link.view))]
                .data[{"phases": "phase"}.get(link.view, "name")]
                .to_pylist()
            )
            assert _name(link) in names


def test_each_moment_counts_for_the_innermost_row() -> None:
    builder = trace().step(1, 0, 1000).op("aten::linear", 0, 900).op("aten::mm", 100, 300).op("aten::add", 400, 250)
    only = said(builder)[-1]
    # linear alone: 900 - 300 - 250 = 350
    assert (only["largest_name"], only["largest_name_ns"], only["largest_ns"]) == ("aten::linear", 350_000, 900_000)


def test_python_of_a_thread_that_works_stands_for_what_nothing_else_explains() -> None:
    builder = (
        step().op("aten::mm", 0, 100).python("train.py(7): main", 0, 900).python("threading.py(3): wait", 0, 990, tid=2)
    )
    only = said(builder)[0]
    assert only["largest_name"] == "train.py(7): main" and only["largest_name_ns"] == 800_000
    assert only["largest_ns"] == 900_000


def test_python_of_a_thread_without_operators_counts_unless_it_is_idle_as_stacks_says() -> None:
    builder = step().op("aten::mm", 0, 100).python("prefetch.py(3): fill", 100, 700, tid=2)
    builder.python("tqdm.py(1): run", 0, 990, tid=3).python("threading.py(9): wait", 5, 980, tid=3)
    only = said(builder)[0]
    assert (only["largest_name"], only["largest_name_ns"]) == ("prefetch.py(3): fill", 700_000)
    idle = [row["thread_idle"] for row in part(builder.table(), "stacks").frames["threads"].data.to_pylist()]
    assert idle == [False, False, True]


def test_of_a_truncated_file_nothing_else_is_known() -> None:
    text = step().op("aten::mm", 0, 10).text()
    cut = model(text[: text.rindex("}")].encode())
    view = part(cut, "overview")
    (only,) = sentences(cut)
    assert "incomplete" in only and not cut.report.complete
    advice: Any = view.payloads["findings"]
    assert advice.notices == []


@pytest.mark.parametrize(("loading", "says"), [(200, True), (199, False)])
def test_data_loading_of_a_truncated_file_is_said_from_a_fifth_on(loading: int, says: bool) -> None:
    text = trace().step(1, 0, 1000).annotation(LOADER, 0, loading).op("aten::mm", loading, 1000 - loading).text()
    (only,) = sentences(model(text[: text.rindex("}")].encode()))
    assert ("In the recorded part, data loading takes {largest_ns}" in only) is says


def test_outside_of_the_steps() -> None:
    builder = step().op("aten::mm", 0, 10).launches(kernel("k", 100, 20)).op("aten::mm", 1500, 10)
    builder.launches(kernel("k", 300, 1520))
    outside = payload_of(part(builder.table(), "overview"), "outside_steps", Figures)
    assert {f.metric.key: f.value for f in outside.figures} == {
        "outside_ns": 820_000,
        "outside_device_ns": 300_000,
        "outside_device_ratio": 0.75,
    }
    assert "outside_steps" not in part(step().op("aten::mm", 0, 10).table(), "overview").payloads


def test_health_says_what_is_linked_and_how_far_the_ends_are_apart() -> None:
    builder = step().op("aten::mm", 0, 10).launches(kernel("k", 100, 20)).on_device(kernel("alone", 100, 5), corr=77)
    health = payload_of(part(builder.table(), "overview"), "trace_health", Figures)
    found = {f.metric.key: f.value for f in health.figures}
    assert (found["linked_ratio"], found["owned_ratio"]) == (0.5, 0.5)
    assert (found["device_lag_ns"], found["device_tail_ns"]) == (5_000, 110_000)
    assert (found["lost_events"], found["odd_times"]) == (0, 0)
