"""What ran in a marked range: cut at its bounds, by name, by device, and what a plain recount finds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.timeline.lanes import lanes_of, tracks_of
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, figures, kernel, part, trace
from tests.conftest import UNLIKE, sample
from tests.depth import examples

TREE = (EventKind.OPERATOR, EventKind.MODULE, EventKind.RUNTIME)
PYTHON = (EventKind.PYTHON, EventKind.MODULE)


def frames(table: TraceTable, start: Any = "", end: Any = "") -> dict[str, list[dict[str, Any]]]:
    found = part(table, "range", extra=(("start_ns", str(start)), ("end_ns", str(end))))
    return {name: frame.data.to_pylist() for name, frame in found.frames.items()}


def by_name(table: TraceTable, start: Any = "", end: Any = "") -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in frames(table, start, end)["range"]}


def small() -> TraceBuilder:
    """An operator of 100 us with a child of 40 us and a kernel that outlives both."""
    return trace().op("outer", 0, 100).op("inner", 20, 40).launches(kernel("k", 90, 30))


def test_events_are_cut_at_the_bounds() -> None:
    found = by_name(small().table(), 50_000, 80_000)
    assert {name: row["inside_ns"] for name, row in found.items()} == {
        "outer": 30_000,
        "inner": 10_000,
        "k": 30_000,
    }
    assert found["outer"]["inside_self_ns"] == 20_000 and found["inner"]["inside_self_ns"] == 10_000
    assert found["outer"]["inside_ratio"] == 1.0
    assert (found["inner"]["mean_ns"], found["inner"]["max_ns"]) == (40_000, 40_000), "of the whole event"


def test_one_track_counts_alone() -> None:
    table = small().table()
    lanes = lanes_of(table)
    track = next(track.id for track in tracks_of(table, lanes, lanes.events) if track.is_device)
    found = part(table, "range", extra=(("track", track),)).frames
    assert [row["name"] for row in found["range"].data.to_pylist()] == ["k"]
    assert found["range_devices"].data["events"].to_pylist() == [1]
    with pytest.raises(BadRequest, match="no such track"):
        part(table, "range", extra=(("track", "9/9/work"),))


def test_the_bounds_belong_to_one_side() -> None:
    table = trace().op("a", 0, 10).op("b", 10, 10).op("empty", 20, 0).table()
    assert set(by_name(table, 10_000, 20_000)) == {"b"}
    assert set(by_name(table, 20_000, 30_000)) == {"empty"}


def test_a_device_is_busy_once_however_many_streams() -> None:
    builder = trace().op("a", 0, 50).launches(kernel("k", 40, 10, stream=7)).launches(kernel("l", 40, 30, stream=8))
    (device,) = frames(builder.table(), 20_000, 80_000)["range_devices"]
    assert (device["busy_ns"], device["idle_ns"], device["events"]) == (50_000, 10_000, 2)
    assert device["busy_ratio"] == pytest.approx(5 / 6)


def test_children_that_overlap_are_taken_off_once() -> None:
    table = trace().op("p", 0, 100).op("a", 10, 40).op("b", 30, 40).table()
    assert by_name(table, 0, 60_000)["p"]["inside_self_ns"] == 10_000


def test_python_calls_lose_what_python_calls_take() -> None:
    table = trace().python("f", 0, 100, id=1).python("g", 20, 50, id=2, parent=1).op("a", 30, 10).table()
    found = by_name(table, 0, 40_000)
    assert found["f"]["inside_self_ns"] == 20_000 and found["g"]["inside_self_ns"] == 20_000


def test_of_one_name_inside_itself_the_outer_one_counts() -> None:
    table = trace().op("f", 0, 100).op("f", 20, 40).op("g", 30, 10).op("f", 200, 10, tid=2).table()
    assert by_name(table, 10_000, 210_000)["f"]["inside_ns"] == 90_000 + 10_000


def test_everything_unless_a_range_is_asked() -> None:
    table = small().table()
    assert sum(row["events"] for row in frames(table)["range"]) == len(table)


@pytest.mark.parametrize("bounds", [(5, 5), (9, 2), ("x", 2), (0, "1.5")])
def test_a_range_that_is_none_is_said(bounds: tuple[Any, Any]) -> None:
    with pytest.raises(BadRequest):
        frames(small().table(), *bounds)


AROUND = (
    EventKind.ANNOTATION, EventKind.DEVICE_ANNOTATION, EventKind.WINDOW, EventKind.UNKNOWN, EventKind.ASYNC,
    EventKind.INSTANT,
)  # fmt: skip


def is_range_trace(table: TraceTable) -> bool:
    return not np.isin(table.kind, TREE).any() and not table.devices and not table.steps.recorded


def latest(table: TraceTable, rows: Any, start: int, end: int) -> Any:
    """Moment by moment: time belongs to the row of the thread that began last and is open."""
    own = np.zeros(len(table), np.int64)
    for track in np.unique(table.track[rows]).tolist():
        mine = rows[table.track[rows] == track]
        low, high = np.maximum(table.start_ns[mine], start), np.minimum(table.end_ns[mine], end)
        moments = np.unique(np.concatenate((low, high))).tolist()
        for begin, stop in pairwise(moments):
            if (open_ := mine[(low <= begin) & (high >= stop)]).size:
                own[open_[-1]] += stop - begin
    return own


def once(data: pd.DataFrame, start: int, end: int) -> pd.Series:
    """What lies in the range of each event, less what earlier ones of its name and thread cover, on threads of the host."""
    inside = data["inside"].copy()
    host = data[data["kind"].isin(["operator", "module", "runtime", "python", "annotation", "overhead"])]
    for _, some in host.groupby(["name", "kind", "track"]):
        reach = start
        for at, row in some.sort_values("start", kind="stable").iterrows():
            low, high = max(row["start"], start), min(row["end"], end)
            inside[at] = max(0, high - max(low, reach))
            reach = max(reach, high)
    return inside


def recount(table: TraceTable, start: int, end: int) -> pd.DataFrame:
    """With pandas, and own time moment by moment: a parent's time is its own where no child of it is open."""
    data = pd.DataFrame(
        {
            "name": [table.strings[int(i)] for i in table.name],
            "kind": [EventKind(int(k)).name.lower() for k in table.kind],
            "start": table.start_ns,
            "end": table.end_ns,
        }
    )
    data["dur"] = data["end"] - data["start"]
    data["inside"] = data["end"].clip(upper=end) - data["start"].clip(lower=start)
    own = data["inside"].to_numpy(copy=True)
    starts, ends = table.start_ns.tolist(), table.end_ns.tolist()
    for kinds, parents, owners in ((TREE, table.parent, TREE), (PYTHON, table.python_parent, (EventKind.PYTHON,))):
        children: dict[int, list[tuple[int, int]]] = {}
        for row in np.flatnonzero(np.isin(table.kind, kinds) & (parents >= 0)).tolist():
            children.setdefault(int(parents[row]), []).append((starts[row], ends[row]))
        for row in np.flatnonzero(np.isin(table.kind, owners)).tolist():
            low, high = max(start, starts[row]), min(end, ends[row])
            reach, left = low, high - low
            for begin, stop in sorted(children.get(row, [])):
                left -= max(0, min(stop, high) - max(begin, reach))
                reach = max(reach, min(stop, high))
            own[row] = left
    there = (data["start"] < end) & ((data["end"] > start) | (data["start"] >= start))
    own[np.isin(table.kind, AROUND)] = 0
    if is_range_trace(table):
        own = latest(table, np.flatnonzero(there & np.isin(table.kind, (*PYTHON, EventKind.ANNOTATION))), start, end)
    data["self"] = own
    data["inside"] = once(data.assign(track=table.track)[there], start, end)
    groups = data[there].groupby(["name", "kind"])
    return groups.agg(
        events=("dur", "size"),
        inside_ns=("inside", "sum"),
        inside_self_ns=("self", "sum"),
        mean_ns=("dur", "mean"),
        min_ns=("dur", "min"),
        max_ns=("dur", "max"),
    )


def assert_recounted(table: TraceTable, start: int, end: int) -> None:
    expected = recount(table, start, end)
    found = frames(table, start, end)["range"]
    assert len(found) == len(expected)
    for row in found:
        other = expected.loc[(row["name"], row["kind"])]
        for key in ("events", "inside_ns", "inside_self_ns", "min_ns", "max_ns"):
            assert (row[key] or 0) == other[key], (row, key)
        no_own = {kind.name.lower() for kind in AROUND} - ({"annotation"} if is_range_trace(table) else set())
        assert (row["inside_self_ns"] is None) == (row["kind"] in no_own)
        assert row["mean_ns"] == pytest.approx(other["mean_ns"])
        assert row["inside_ratio"] == row["inside_ns"] / (end - start)


@pytest.mark.parametrize("name", UNLIKE, ids=lambda n: n.split(".")[0])
def test_a_sample_recounted(name: str) -> None:
    table = sample(name)
    last = table.coverage.end_ns
    for start, end in ((last // 3, last // 2), (last // 2, last // 2 + 1), (0, last + 1)):
        assert_recounted(table, start, end)


calls = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 25), st.integers(0, 3)), max_size=12)


@given(calls, st.integers(0, 60_000), st.integers(1, 40_000))
@examples(suite=20, deep=300)
def test_any_range_recounted(drawn: list[tuple[int, int, int]], start: int, length: int) -> None:
    builder = trace()
    for i, (at, dur, what) in enumerate(drawn):
        if what == 3:
            builder.python(f"f{i % 3}", at, dur, id=i + 1)
        else:
            builder.op(f"op{what}", at, dur, tid=what % 2)
    assert_recounted(builder.table(), start, start + length)


def waiting() -> TraceBuilder:
    """The main thread works for 100 us; another one waits in ``threading.wait`` for all that time."""
    builder = trace().python("train.py(3): step", 0, 100, id=1).op("aten::mm", 10, 20).launches(kernel("k", 30, 40))
    builder.python("threading.py(359): wait", 0, 100, id=2, tid=9)
    return builder.python("<built-in method acquire of _thread.lock object>", 1, 98, id=3, parent=2, tid=9)


def test_threads_that_only_wait_are_counted_and_not_listed() -> None:
    table = waiting().table()
    assert set(by_name(table)) == {"train.py(3): step", "aten::mm", "cudaLaunchKernel", "k"}
    summary = figures(part(table, "range").payloads["summary"])
    assert (summary["events"], summary["waiting_threads"]) == (4, 1)
    alone = trace().python("threading.py(359): wait", 0, 100, id=2).table()
    assert set(by_name(alone)) == {"threading.py(359): wait"}, "nothing else was recorded"
    busy = waiting().op("aten::add", 50, 5, tid=9).table()
    assert "threading.py(359): wait" in by_name(busy), "it runs an operator"


def test_each_event_is_in_one_group() -> None:
    table = waiting().annotation("forward", 5, 50).table()
    found = part(table, "range")
    groups = {row["name"]: row["range_group"] for row in found.frames["range"].data.to_pylist()}
    assert groups == {
        "train.py(3): step": "python", "aten::mm": "operator", "cudaLaunchKernel": "operator", "k": "kernel",
        "forward": "annotation",
    }  # fmt: skip
    counted = {"kernel_events": 1, "operator_events": 2, "python_events": 1, "annotation_events": 1, "other_events": 0}
    assert figures(found.payloads["groups"]) == counted


def test_each_stream_is_measured() -> None:
    builder = trace().op("a", 0, 50).launches(kernel("k", 40, 10, stream=7)).launches(kernel("l", 40, 30, stream=8))
    streams = frames(builder.table(), 20_000, 80_000)["range_streams"]
    assert [(row["events"], row["busy_ns"], row["idle_ns"]) for row in streams] == [
        (1, 30_000, 30_000),
        (1, 40_000, 20_000),
    ]
    assert "stream 7" in streams[0]["stream"]


def test_a_query_selects_events_of_the_range() -> None:
    table = small().table()
    found = part(table, "range", search="dur<50us kind:operator").frames["range"].data.to_pylist()
    assert [(row["name"], row["inside_self_ns"]) for row in found] == [("inner", 40_000)]
    (outer,) = part(table, "range", search="name:outer").frames["range"].data.to_pylist()
    assert outer["inside_self_ns"] == 60_000, "the operator inside it is not its own time"
