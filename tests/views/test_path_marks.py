"""Marks of the critical path, the way along it, and slack, by hand and on every sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tb_plugin.analysis.critical_path.steps import critical_time
from tb_plugin.errors import BadRequest
from tb_plugin.lib.intervals import union
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figures
from tb_plugin.views.path_marks.view import MOST_MARKS
from tests.builders import figures, kernel, named, part, payload_of, trace
from tests.conftest import SAMPLE_FILES, sample

STEP = "ProfilerStep#0"


def ask(table: TraceTable, frame: str, **params: Any) -> list[dict[str, Any]]:
    extra = tuple((key, str(value)) for key, value in params.items())
    found: list[dict[str, Any]] = part(table, "path_marks", extra=extra).frames[frame].data.to_pylist()
    return found


def marks(table: TraceTable, **params: Any) -> list[tuple[int, int | None, int, int]]:
    """Lane, row, start and end of each mark."""
    rows = ask(table, "path_marks", **params)
    return [(row["lane"], row["row"], row["start_ns"], row["start_ns"] + row["dur_ns"]) for row in rows]


def walk(table: TraceTable, by: int, **params: Any) -> list[str]:
    """Names of the events on the path, one after the other."""
    names = []
    while found := ask(table, "next", by=by, **params):
        names.append(found[0]["name"])
        params = {"event": found[0]["event"]}
    return names


def slack_of(table: TraceTable, name: str) -> Any:
    found = part(table, "path_marks", extra=(("event", str(named(table, name))),))
    assert list(found.frames) == []
    return payload_of(found, "slack", Figures)


def two_kernels() -> TraceTable:
    """Two slow operators with a kernel each: the thread decides, and the first kernel has slack."""
    return (
        trace().step(0, 0, 200)
        .op("first", 0, 90).op("inner", 20, 10).launches(kernel("a", 10, at=90), at=80, dur=5)
        .op("second", 100, 90).launches(kernel("b", 20, at=190), at=180, dur=5)
        .op("after", 400, 10)
        .table()
    )  # fmt: skip


def test_marks_by_row() -> None:
    device, thread = 0, 1
    # Rows of the thread: the step, the operators, their calls. The last 10 us of kernel b are in the step.
    us = [
        (thread, 1, 0, 20), (thread, 2, 20, 30), (thread, 1, 30, 80), (thread, 2, 80, 85), (thread, 1, 85, 90),
        (thread, 0, 90, 100), (thread, 1, 100, 180), (thread, 2, 180, 190), (device, 0, 190, 210),
    ]  # fmt: skip
    assert marks(two_kernels()) == [(lane, row, 1000 * start, 1000 * end) for lane, row, start, end in us]


def test_short_gaps_are_joined() -> None:
    """Pieces of the first operator are 10 us apart, and those of both operators too."""
    (first, *others) = marks(two_kernels(), min_ns=10_000)
    assert first == (1, 1, 0, 180_000)
    assert [mark[:2] for mark in others] == [(1, 2), (1, 2), (1, 0), (1, 2), (0, 0)]
    # Only the gap of the first launch call is shorter.
    assert len(marks(two_kernels(), min_ns=9_999)) == 8


def test_alternating_rows_are_one_mark() -> None:
    """Marks of rows that would lie above each other say less than one mark of their lane."""
    builder = trace().step(0, 0, 1000)
    for at in range(0, 1000, 10):
        builder.op("outer", at, 8).op("middle", at + 1, 6).op("inner", at + 2, 4)
    table = builder.table()
    assert marks(table, min_ns=20_000) == [(0, None, 0, 1_000_000)]
    assert {row for _, row, _, _ in marks(table, min_ns=500)} == {0, 1, 2, 3}


def test_marks_of_a_time_range() -> None:
    assert marks(two_kernels(), start_ns=185_000, end_ns=190_000) == [(1, 2, 185_000, 190_000)]
    assert marks(two_kernels(), start_ns=300_000, end_ns=500_000) == []


def test_way_along_the_path() -> None:
    """Each event comes once, also an operator that continues after an inner operator."""
    table = two_kernels()
    launch = "cudaLaunchKernel"
    way = ["first", "inner", launch, STEP, "second", launch, "b"]
    assert walk(table, 1, from_ns=0) == way
    assert walk(table, -1, event=named(table, "b")) == way[-2::-1]
    assert walk(table, 1, event=named(table, "second")) == way[5:]
    # From events that are not on the path.
    assert walk(table, 1, event=named(table, "a")) == way[3:]
    assert walk(table, -1, event=named(table, "a")) == way[2::-1]
    assert walk(table, 1, from_ns=190_000) == ["b"]
    assert walk(table, -1, from_ns=0) == []
    (found,) = ask(table, "next", by=1, event=named(table, "second"))
    assert (found["lane"], found["row"], found["start_ns"], found["dur_ns"]) == (1, 2, 180_000, 5_000)


def test_slack() -> None:
    table = two_kernels()
    assert figures(slack_of(table, "second")) == {"slack_ns": 0, "path_ns": 80_000}
    assert slack_of(table, "second").figures[0].note == "on the critical path"
    assert figures(slack_of(table, "a")) == {"slack_ns": 90_000}
    assert figures(slack_of(table, "after")) == {}


def test_without_steps_the_trace_is_one_step() -> None:
    table = trace().op("first", 0, 10).op("last", 20, 10).table()
    assert marks(table, min_ns=0) == [(0, 0, 0, 10_000), (0, 0, 20_000, 30_000)]
    assert walk(table, 1, from_ns=0) == ["first", "last"]


@pytest.mark.parametrize(("key", "value"), [("by", "2"), ("by", "x"), ("event", "99"), ("from_ns", "soon")])
def test_wrong_parameters(key: str, value: str) -> None:
    extra = ((key, value), ("by", "1")) if key != "by" else ((key, value),)
    with pytest.raises(BadRequest) as caught:
        part(two_kernels(), "path_marks", extra=extra)
    assert caught.value.where == key


@pytest.mark.parametrize("name", SAMPLE_FILES)
def test_marks_cover_the_path(name: str) -> None:
    """Joined or not, the marks contain every piece of the path, and a page of a table contains all marks."""
    table = sample(name)
    path = critical_time(table) if len(table.steps.label) else None
    found = marks(table)
    assert len(found) <= MOST_MARKS
    if path is None:
        assert found == []
        return
    path = path.take(path.row >= 0)
    assert (np.diff(path.start_ns) >= 0).all()
    covered = union(*(np.array([mark[at] for mark in found], np.int64) for at in (2, 3)))
    at = np.searchsorted(covered.start, path.start_ns, side="right") - 1
    assert (covered.end[at] >= path.end_ns).all()
    if all(row is not None for _, row, _, _ in found):
        assert sum(end - start for _, _, start, end in found) == path.ns.sum()
    # By rows as soon as they fit.
    inside = marks(table, end_ns=int(path.end_ns[min(500, len(path.row) - 1)]))
    assert all(row is not None for _, row, _, _ in inside)


def test_empty_trace() -> None:
    table = trace().table()
    assert marks(table) == [] and walk(table, 1, from_ns=0) == []
