"""Arrows: which events they join, what one event led to, and what a plain recount finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.timeline.pyramid import build
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Flows
from tb_plugin.views.flows.view import CHAIN, KINDS, arrows_of
from tests.builders import TraceBuilder, kernel, name_of, named, part, trace
from tests.conftest import UNLIKE, sample
from tests.depth import examples

DEVICE = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)


def flows(table: TraceTable, **asked: Any) -> Flows:
    found = part(table, "flows", extra=tuple((key, str(value)) for key, value in asked.items())).payloads["flows"]
    assert isinstance(found, Flows)
    return found


def arrows(found: Flows) -> set[tuple[int, int, str]]:
    """Event, event and kind of each arrow."""
    columns = zip(found.from_, found.to, found.arrow, strict=True)
    return {(found.event[tail], found.event[head], found.kinds[kind]) for tail, head, kind in columns}


def told(table: TraceTable, **asked: Any) -> set[str]:
    """Arrows as they read."""
    return {
        f"{name_of(table, tail)} {kind} {name_of(table, head)}" for tail, head, kind in arrows(flows(table, **asked))
    }


def training() -> TraceBuilder:
    """A forward operator in another one, its backward operator on another thread, a kernel each; and one of neither."""
    builder = trace().op("aten::linear", 0, 50).op("aten::mm", 10, 30, sequence=7)
    builder.launches(kernel("forward", 5, 60), at=20, dur=2, name="cudaLaunchKernel")
    builder.op("aten::add", 55, 5).launches(kernel("other", 5, 70), at=56, dur=1, name="cudaLaunchKernelExC")
    builder.op("evaluate", 100, 50, tid=2).op("MmBackward0", 105, 30, tid=2, sequence=7, forward_thread=1)
    return builder.launches(kernel("backward", 5, 160), at=110, dur=2, name="hipLaunchKernel")


WHOLE = {
    "cudaLaunchKernel launch forward",
    "aten::mm forward_backward MmBackward0",
    "hipLaunchKernel launch backward",
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::mm", WHOLE),
        ("aten::linear", WHOLE),
        ("forward", WHOLE),
        ("cudaLaunchKernel", WHOLE),
        ("MmBackward0", WHOLE),
        ("evaluate", WHOLE),
        ("backward", WHOLE),
        ("aten::add", {"cudaLaunchKernelExC launch other"}),
        ("other", {"cudaLaunchKernelExC launch other"}),
    ],
)
def test_the_chain_of_an_event(name: str, expected: set[str]) -> None:
    table = training().table()
    assert told(table, event=named(table, name)) == expected


def test_an_event_without_arrows_is_there_alone() -> None:
    table = trace().op("a", 0, 5).table()
    found = flows(table, event=0)
    assert (found.event, found.lane, found.row, found.names, found.total) == ([0], [0], [0], ["a"], 0)
    assert found.to == found.from_ == found.arrow == []


def test_work_without_a_recorded_launch_comes_from_its_operator() -> None:
    table = trace().op("a", 0, 5, ext=3).on_device(kernel("k", 4, 9), ext=3).on_device(kernel("l", 4, 19)).table()
    assert told(table) == {"a operator k"} == told(table, event=named(table, "k")) == told(table, event=0)
    assert told(table, event=named(table, "l")) == set()


def test_waits_come_from_the_call_that_made_them() -> None:
    builder = trace().op("a", 0, 50).call(10, 3, corr=5, name="cudaStreamWaitEvent").on_device(kernel("k", 4, 9))
    builder.event("cuda_sync", "Stream Wait Event", 11, 2, 0, 7, stream=7, device=0, correlation=5)
    builder.event("cuda_sync", "Context Sync", 21, 2, 0, 7, stream=7, device=0)
    table = builder.table()
    expected = {"cudaStreamWaitEvent sync Stream Wait Event"}
    assert told(table) == expected == told(table, event=named(table, "Stream Wait Event")) == told(table, event=0)


def test_calls_of_another_thread_are_not_beneath() -> None:
    builder = trace().op("a", 0, 50).op("b", 10, 20, tid=2).launches(kernel("k", 4, 60))
    table = builder.table()
    assert told(table, event=named(table, "a")) == set()
    assert told(table, event=named(table, "b")) == {"cudaLaunchKernel launch k"}


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 10, set()),
        (21, 22, {"cudaLaunchKernel launch forward", "aten::mm forward_backward MmBackward0"}),
        (63, 64, {"cudaLaunchKernel launch forward"}),
        (65, 70, set()),
        (120, 130, {"aten::mm forward_backward MmBackward0"}),
    ],
)
def test_arrows_of_a_window_have_an_end_in_it(start: int, end: int, expected: set[str]) -> None:
    assert told(training().table(), start_ns=start * 1000, end_ns=end * 1000) == expected


def test_kinds_that_are_asked_for() -> None:
    table = training().table()
    assert told(table, kinds="forward_backward") == {"aten::mm forward_backward MmBackward0"}
    mm = named(table, "aten::mm")
    assert told(table, event=mm, kinds="sync,launch") == {text for text in WHOLE if " launch " in text}


def test_too_many_arrows_of_a_window_are_counted_only() -> None:
    table = training().table()
    for most, shown in ((4, 4), (3, 0), (0, 0)):
        found = flows(table, most=most)
        assert (len(found.to), found.total, found.hidden) == (shown, 4, 4 - shown)
    assert flows(table, most=3).event == []


def test_of_many_launches_beneath_an_event_the_first_are_shown() -> None:
    builder = trace().op("a", 0, 500)
    for i in range(CHAIN + 20):
        builder.launches(kernel(f"k{i}", 1, 600 + i), at=i, dur=1)
    table = builder.table()
    found = flows(table, event=0)
    assert (len(found.to), found.total, found.hidden) == (CHAIN, CHAIN + 20, 20)
    assert {name_of(table, found.event[head]) for head in found.to} == {f"k{i}" for i in range(CHAIN)}


@pytest.mark.parametrize(
    "asked",
    [{"event": "-1"}, {"event": 99}, {"kinds": "love"}, {"most": "all"}, {"start_ns": 5, "end_ns": 5}],
    ids=str,
)
def test_what_makes_no_sense_is_said(asked: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        flows(training().table(), **asked)


def all_arrows(table: TraceTable) -> pd.DataFrame:
    """One row an arrow, by joins of the events with themselves."""
    events = pd.DataFrame(
        {
            "event": range(len(table)),
            "kind": table.kind,
            "launch": table.launch,
            "operator": table.operator,
            "forward": table.forward,
            "correlation": table.correlation,
        }
    )
    work = events[events["kind"].isin(DEVICE)]
    waits = events[(events["kind"] == EventKind.SYNC) & (events["correlation"] > 0)]
    calls = events[events["kind"] == EventKind.RUNTIME].drop_duplicates("correlation")
    sorts = {
        "launch": work[work["launch"] >= 0][["launch", "event"]],
        "operator": work[(work["launch"] < 0) & (work["operator"] >= 0)][["operator", "event"]],
        "forward_backward": events[events["forward"] >= 0][["forward", "event"]],
        "sync": calls.merge(waits, on="correlation")[["event_x", "event_y"]],
        "recorded": pd.DataFrame({"tail": table.arrows.tail, "head": table.arrows.head}),
    }
    found = [frame.set_axis(["tail", "head"], axis=1).assign(kind=kind) for kind, frame in sorts.items()]
    return pd.concat(found, ignore_index=True).astype({"tail": int, "head": int})


def as_set(frame: pd.DataFrame) -> set[tuple[int, int, str]]:
    return set(frame[["tail", "head", "kind"]].itertuples(index=False, name=None))


def inside(table: TraceTable, rows: pd.Series, event: int) -> pd.Series:
    """Which rows are the event, or begin after it on its thread while it is open."""
    begins = pd.Series(table.start_ns[rows], rows.index) < int(table.start_ns[event]) + int(table.dur_ns[event])
    same = pd.Series(table.track[rows], rows.index) == table.track[event]
    return (rows == event) | ((rows > event) & begins & same)


def chain(table: TraceTable, every: pd.DataFrame, event: int) -> set[tuple[int, int, str]]:
    """Step by step, one arrow at a time, without bounds."""
    is_link = every["kind"].isin(["forward_backward", "recorded"])
    work, links = every[~is_link], every[is_link]
    if table.kind[event] in (*DEVICE, EventKind.DEVICE_ANNOTATION, EventKind.SYNC):
        own = work[work["head"] == event]
        row = int(own["tail"].iloc[0]) if len(own) else -1
        around = links[(links["tail"] == event) | (links["head"] == event)]
    else:
        own = work[inside(table, work["tail"], event)]
        around = links[inside(table, links["tail"], event) | inside(table, links["head"], event)]
        row = event
    at = event
    while around.empty and row >= 0:
        around, at, row = links[(links["tail"] == row) | (links["head"] == row)], row, int(table.operator[row])
    found = as_set(own) | as_set(around)
    ends = pd.concat([around["tail"], around["head"]]).drop_duplicates()
    for end in ends[~inside(table, ends, at)].tolist():
        found |= as_set(work[inside(table, work["tail"], end)])
    return found


def assert_window_recounted(table: TraceTable, every: pd.DataFrame, start: int, end: int) -> None:
    def touches(rows: pd.Series) -> Any:
        begin, stop = table.start_ns[rows], table.end_ns[rows]
        return (begin < end) & ((stop > start) | (begin >= start))

    expected = as_set(every[touches(every["tail"]) | touches(every["head"])])
    found = flows(table, start_ns=start, end_ns=end, most=5000)
    assert found.total == len(expected)
    assert arrows(found) == (expected if len(expected) <= 5000 else set())
    for i, event in enumerate(found.event):
        assert (found.start_ns[i], found.dur_ns[i]) == (table.start_ns[event], table.dur_ns[event])
        assert found.names[found.name[i]] == name_of(table, event) and found.row[i] == table.depth[event]


@pytest.mark.parametrize("name", UNLIKE, ids=lambda n: n.split(".")[0])
def test_a_sample_recounted(name: str) -> None:
    table = sample(name)
    every = all_arrows(table)
    assert len(arrows_of(table).tail) == len(every)
    last = table.coverage.end_ns
    for start, end in ((last // 3, last // 2), (last // 2, last // 2 + 1), (0, last + 1)):
        assert_window_recounted(table, every, start, end)
    ends = np.unique(every[["tail", "head"]].to_numpy())
    around = {int(table.operator[row]) for row in ends} - {-1}
    for event in [*ends[:: len(ends) // 5 + 1].tolist(), *sorted(around)[:: len(around) // 5 + 1], len(table) // 2]:
        found, expected = flows(table, event=event), chain(table, every, event)
        shown = arrows(found)
        assert shown <= expected
        if len(found.to) < CHAIN:
            assert shown == expected and found.total == len(expected) and not found.hidden


@pytest.mark.parametrize("name", UNLIKE, ids=lambda n: n.split(".")[0])
def test_lanes_are_those_of_the_drawing(name: str) -> None:
    table = sample(name)
    pyramid = build(table)
    finest = pyramid.levels[0]
    lines = np.repeat(np.arange(len(pyramid.lane)), np.diff(finest.bounds))
    lane = dict(zip(finest.first.tolist(), pyramid.lane[lines].tolist(), strict=True))
    found = flows(table, most=5000)
    assert found.row == table.depth[found.event].tolist()
    assert found.lane == [lane[event] for event in found.event]


calls = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(1, 2), st.sampled_from(KINDS)), max_size=10
)


@given(calls, st.integers(0, 60), st.integers(1, 40))
@examples(suite=25, deep=500)
def test_any_arrows_recounted(drawn: list[tuple[int, int, int, str]], start: int, length: int) -> None:
    builder = trace()
    for i, (at, dur, tid, kind) in enumerate(drawn):
        backward = {"sequence": i // 2 + 1, "forward_thread": 1 if i % 2 else None} if kind == KINDS[1] else {}
        builder.op(f"op{i}", at, dur, ext=i + 1, tid=tid, **backward)
        if kind == "launch":
            builder.launches(kernel(f"k{i}", 3, at + 10), at=at + dur // 2)
        elif kind == "operator":
            builder.on_device(kernel(f"k{i}", 3, at + 10), ext=i + 1)
        elif kind == "sync":
            builder.call(at, 0, corr=i + 1, tid=tid)
            builder.event("cuda_sync", "wait", at, 1, 0, 7, stream=7, device=0, correlation=i + 1)
    table = builder.table()
    every = all_arrows(table)
    assert_window_recounted(table, every, start * 1000, (start + length) * 1000)
    for event in range(len(table)):
        found, expected = flows(table, event=event), chain(table, every, event)
        assert arrows(found) == expected and found.total == len(expected) == len(found.to)
