"""The sentences that stand first: by hand, recounted in plain Python on the samples, and for any trace."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analyses.overview.largest import WORTH, largest_costs
from tb_plugin.analyses.step_shares import CATEGORIES, active_rows, break_down, shares
from tb_plugin.payloads import Figures, Link
from tb_plugin.trace.schema import DEVICE_WORK, MISSING
from tb_plugin.trace.table import TraceTable
from tests.builders import TraceBuilder, kernel, memcpy, model, part, trace
from tests.conftest import SAMPLE_FILES, sample
from tests.depth import examples

LOADER = "enumerate(DataLoader)#X.__next__"


def said(builder: TraceBuilder) -> list[dict[str, Any]]:
    """The figures of each sentence."""
    payload: Any = part(builder.table(), "overview").payloads.get("largest_costs")
    return [{f.metric.key: f.value for f in notice.figures} for notice in payload.notices] if payload else []


def step() -> TraceBuilder:
    return trace().device(0).step(1, 0, 1000)


def test_a_copy_that_holds_up_the_host_is_named_with_its_caller() -> None:
    """U2: half of the step in one copy under aten::to."""
    builder = step().op("aten::to", 100, 700).launches(memcpy(20, 780), at=110, dur=650, name="cudaMemcpyAsync")
    first = said(builder)[0]
    assert first["largest_ns"] == 650_000 and first["largest_share"] == 0.65
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


def test_the_loader_stands_before_the_kernels() -> None:
    builder = step().annotation(LOADER, 0, 330).op("aten::mm", 340, 10).launches(kernel("gemm", 550, 360))
    assert [each["largest_name"] for each in said(builder)] == [LOADER, "gemm"]
    assert said(builder)[1]["largest_caller"] == "aten::mm"


def test_without_a_device_operators_stand_for_the_kernels() -> None:
    builder = trace().step(1, 0, 1000).annotation(LOADER, 0, 300).op("aten::mm", 300, 700)
    assert [each["largest_name"] for each in said(builder)] == [LOADER, "aten::mm"]


def evidence(table: TraceTable) -> list[Link]:
    payload: Any = part(table, "overview").payloads.get("largest_costs")
    return [notice.evidence for notice in payload.notices] if payload else []


def test_a_named_range_is_looked_for_among_the_phases() -> None:
    builder = trace().step(1, 0, 1000).annotation("pack 1", 0, 900).annotation("pack 2", 900, 50)
    (link,) = evidence(builder.op("aten::mm", 100, 20).table())
    assert (link.view, link.params["form"], link.params["search"]) == ("phases", "table", "pack *")


def test_copies_that_nothing_hides_are_no_kernels() -> None:
    table = step().op("aten::to", 0, 10).launches(memcpy(800, 20), at=2, dur=5, name="cudaMemcpyAsync").table()
    (link,) = evidence(table)
    assert (link.view, link.params["group"]) == ("kernels", "copies")
    names = {name: part(table, "kernels").frames[name].data["name"].to_pylist() for name in ("kernels", "copies")}
    assert names == {"kernels": [], "copies": [link.params["search"]]}


def test_what_holds_the_device_up_opens_at_its_longest_event() -> None:
    builder = step().annotation(LOADER, 0, 100).annotation(LOADER, 200, 300)
    link, _ = evidence(builder.op("aten::mm", 600, 10).launches(kernel("k", 300, 620)).table())
    assert link.view == "timeline" and link.params["search"] == LOADER and link.params["gaps"] == "1"
    # 300 us from 200 us on, and half as much before and after it.
    assert (link.params["start_ns"], link.params["end_ns"]) == ("50000", "650000")


@pytest.mark.parametrize("name", SAMPLE_FILES)
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
            assert link.params["search"] in names


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


@pytest.mark.parametrize(("dur", "count"), [(99, 1), (100, 2)])
def test_a_tenth_is_worth_a_sentence(dur: int, count: int) -> None:
    builder = step().annotation(LOADER, 0, dur).op("aten::mm", dur, 1000 - dur).launches(kernel("k", 1000 - dur, dur))
    assert len(said(builder)) == count


def test_nothing_is_said_of_a_file_that_ends_early() -> None:
    text = step().op("aten::mm", 0, 10).text()
    cut = model(text[: text.rindex("}")].encode())
    view = part(cut, "overview")
    assert "largest_costs" not in view.payloads and not cut.report.complete
    advice: Any = view.payloads["findings"]
    assert advice.notices == []


def test_outside_of_the_steps() -> None:
    builder = step().op("aten::mm", 0, 10).launches(kernel("k", 100, 20)).op("aten::mm", 1500, 10)
    builder.launches(kernel("k", 300, 1520))
    outside = part(builder.table(), "overview").payloads["outside_steps"]
    assert isinstance(outside, Figures)
    assert {f.metric.key: f.value for f in outside.figures} == {
        "outside_ns": 820_000,
        "outside_device_ns": 300_000,
        "outside_device_ratio": 0.75,
    }
    assert "outside_steps" not in part(step().op("aten::mm", 0, 10).table(), "overview").payloads


def test_health_says_what_is_linked_and_how_far_the_ends_are_apart() -> None:
    builder = step().op("aten::mm", 0, 10).launches(kernel("k", 100, 20)).on_device(kernel("alone", 100, 5), corr=77)
    health = part(builder.table(), "overview").payloads["trace_health"]
    assert isinstance(health, Figures)
    found = {f.metric.key: f.value for f in health.figures}
    assert (found["linked_ratio"], found["owned_ratio"]) == (0.5, 0.5)
    assert (found["device_lag_ns"], found["device_tail_ns"]) == (5_000, 110_000)
    assert (found["lost_events"], found["odd_times"]) == (0, 0)


def recounted(table: TraceTable, category: str) -> tuple[int, Counter[str]]:
    """Length of a category's part and how much of it each name covers, a piece of time after the other."""
    steps = table.steps
    windows = list(zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True))
    ranges = shares(table)[category]
    pieces = sorted(
        (max(low, start), min(high, end))
        for low, high in set(zip(ranges.start.tolist(), ranges.end.tolist(), strict=True))
        for start, end in windows
        if max(low, start) < min(high, end)
    )
    own: Counter[str] = Counter()
    rows = active_rows(table, category).nonzero()[0].tolist()
    times = {row: (int(table.start_ns[row]), int(table.end_ns[row])) for row in rows}
    for row, (start, end) in times.items():
        covered = sum(max(0, min(high, end) - max(low, start)) for low, high in pieces)
        own[table.strings[table.name[row]]] += covered
        if table.kind[row] in DEVICE_WORK:
            continue
        around = [
            other
            for other in rows
            if other < row
            and table.track[other] == table.track[row]
            and times[other][0] <= start
            and end <= times[other][1]
        ]
        if around:  # rows are in order of start, longest first: the last one is the innermost
            own[table.strings[table.name[around[-1]]]] -= covered
    return sum(high - low for low, high in pieces), own


def check(table: TraceTable) -> None:
    steps = table.steps
    breakdown = break_down(table, None)
    total = int(breakdown.total.sum())
    found = largest_costs(table, steps, breakdown)
    sums = {category: int(breakdown.parts[category].sum()) for category in CATEGORIES}
    assert bool(found) == (total > 0)
    assert all(cost.part_ns == sums[cost.category] for cost in found)
    assert len(found) == 1 or all(cost.part_ns >= WORTH * total for cost in found)
    assert not found or max(sums.values()) == max(cost.part_ns for cost in found)
    for cost in found:
        if cost.category == "other" or len(table) > 3000:
            continue
        length, own = recounted(table, cost.category)
        assert length == cost.part_ns
        most = max(own.values(), default=0)
        assert cost.name_ns == min(most, length) and (cost.name == MISSING or own[table.strings[cost.name]] == most)


@pytest.mark.parametrize("name", SAMPLE_FILES)
def test_a_sample_recounted(name: str) -> None:
    check(sample(name))


@given(st.data())
@examples(20, 300)
def test_any_trace_recounted(data: st.DataObject) -> None:
    builder = trace().device(0)
    for number in range(data.draw(st.integers(0, 2))):
        builder.step(number, 500 * number, 500)
    for _ in range(data.draw(st.integers(0, 6))):
        at, dur = data.draw(st.integers(0, 900)), data.draw(st.integers(0, 400))
        name = data.draw(st.sampled_from(["aten::a", "aten::b", LOADER]))
        if name == LOADER:
            builder.annotation(name, at, dur, tid=data.draw(st.integers(1, 2)))
        else:
            builder.op(name, at, dur, tid=data.draw(st.integers(1, 2)))
            if data.draw(st.booleans()):
                builder.launches(kernel("k", data.draw(st.integers(0, 300)), at + 5))
    table = builder.table()
    if not table.overlaps.any():  # where rows cross, the tree decides what is inside
        check(table)
