"""Hooks that write "before backward of X" and "after backward of X": ranges between the two, properly nested."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.model.trace.hook_ranges import CODE
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, name_of, rows, trace
from tests.depth import examples

ENGINE = "autograd::engine::evaluate_function: BackwardHookFunctionBackward"
Range = tuple[str, int, int, int]


def marks(*names: str, tid: int = 1, builder: TraceBuilder | None = None) -> TraceBuilder:
    """One mark per 10 us, 1 us long: "<backward of A" is short for "before backward of A"."""
    builder = builder or trace()
    for i, name in enumerate(names):
        builder.annotation({"<": "before ", ">": "after "}.get(name[0], name[0]) + name[1:], at=10 * i, dur=1, tid=tid)
    return builder


def ranges(table: TraceTable) -> list[Range]:
    """(name, thread, start, end) of the ranges in microseconds since the first event."""
    found = []
    for row in np.flatnonzero(table.kind == EventKind.ANNOTATION).tolist():
        name = name_of(table, row) or ""
        if not name.startswith(("before", "after", "other")):
            start, end = int(table.start_ns[row]), int(table.ends(np.array([row]))[0])
            found.append((name, int(table.tracks[table.track[row]].tid), start // 1000, end // 1000))
    return found


def unpaired(table: TraceTable) -> int:
    return sum(issue.count for issue in table.report.issues if issue.code == CODE)


@pytest.mark.parametrize(
    ("names", "expected", "alone"),
    [
        (["<backward of A", ">backward of A"], [("backward of A", 1, 1, 10)], 0),
        (
            ["<backward of A", "<backward of B: 2", ">backward of B: 2", ">backward of A"],
            [("backward of A", 1, 1, 30), ("backward of B: 2", 1, 11, 20)],
            0,
        ),
        # The inner call of a recursive module ends first.
        (
            ["<forward of A", "<forward of A", ">forward of A", ">forward of A"],
            [("forward of A", 1, 1, 30), ("forward of A", 1, 11, 20)],
            0,
        ),
        # Forward and backward are different ranges, and so are names in another case.
        (["<forward of A", ">backward of A", ">forward of a"], [], 3),
        # B would cross A.
        (["<backward of A", "<backward of B", ">backward of A", ">backward of B"], [("backward of A", 1, 1, 20)], 2),
        ([">backward of A", "<backward of A"], [], 2),
        (["<backward of A", "<backward of A", ">backward of A"], [("backward of A", 1, 11, 20)], 1),
        # Other annotations are no marks.
        (["<backward of ", ">backward of ", "<backward pass", "other"], [], 0),
        (["<backward of é\nx", ">backward of é\nx"], [("backward of é\nx", 1, 1, 10)], 0),
    ],
)
def test_a_mark_is_paired_with_the_next_of_its_name(names: list[str], expected: list[Range], alone: int) -> None:
    table = marks(*names).table()
    assert [one for one in ranges(table) if one[0] != "backward pass"] == expected
    assert unpaired(table) == alone


def test_each_thread_has_pairs_of_its_own() -> None:
    builder = marks("<backward of A", ">backward of B")
    table = marks("<backward of B", ">backward of A", tid=2, builder=builder).table()
    assert (ranges(table), unpaired(table)) == ([], 4)


def test_a_range_contains_operators_wholly() -> None:
    """Autograd calls both hooks inside operators of its own, which the range must not cut."""
    builder = trace().op("before", at=0, dur=5)
    builder.op(ENGINE, at=10, dur=10).op("BackwardHookFunctionBackward", at=11, dur=8)
    builder.annotation("before backward of Drop", at=12, dur=2)
    builder.op("GatherBackward0", at=30, dur=40)
    builder.op(ENGINE, at=80, dur=10).annotation("after backward of Drop", at=82, dur=2)
    table = builder.table()
    assert ranges(table) == [("backward of Drop", 1, 20, 80)]
    assert not table.overlaps.any() and unpaired(table) == 0


def test_phases_and_backward_work_follow_the_range() -> None:
    builder = marks("<backward of Drop: 1", ">backward of Drop: 1", "<backward of Drop: 2", ">backward of Drop: 2")
    phases = {row["phase"]: row["calls"] for row in rows(builder.table(), "phases")}
    assert phases["backward of Drop: *"] == 2
    assert phases["before backward of Drop: *"] == 2, "the marks stay, so that a search finds them"


def test_the_others_are_counted_in_a_notice() -> None:
    from tb_plugin.views.overview.data_quality import data_notices

    (notice,) = [one for one in data_notices(marks("<backward of A").table()) if "Hook marks" in one.text]
    assert [figure.value for figure in notice.figures] == [1]


def test_deep_nesting_ends() -> None:
    builder = trace()
    for i in range(3000):
        builder.op("f", at=i, dur=6000 - 2 * i)
    builder.annotation("before forward of A", at=3000, dur=0).annotation("after forward of A", at=7000, dur=1)
    table = builder.table()
    assert (ranges(table), unpaired(table)) == ([], 2)


names = st.builds(
    "{} {} of {}".format,
    st.sampled_from(("before", "after")),
    st.sampled_from(("forward", "backward")),
    st.sampled_from("AB"),
)


@st.composite
def nested(draw: st.DrawFn) -> TraceBuilder:
    """Marks in any order, inside operators, modules and annotations that nest properly."""
    rng, builder, clock = random.Random(draw(st.integers(0, 10**6))), trace(), 0
    for tid in (1, 2):
        open_at: list[int] = []
        for _ in range(draw(st.integers(0, 40))):
            clock += rng.randint(0, 2)
            kind = rng.randint(0, 4)
            if kind == 0:
                open_at.append(clock)
            elif kind == 1 and open_at:
                begin = open_at.pop()
                rng.choice([builder.op, builder.annotation])("other", begin, clock - begin, tid=tid)
            else:
                dur = rng.randint(0, 1)
                builder.annotation(draw(names), clock, dur, tid=tid)
                clock += dur
    return builder


@given(nested())
@examples(150, 1500)
def test_ranges_never_cross_events_that_nest(builder: TraceBuilder) -> None:
    table = builder.table()
    assert not table.overlaps.any()
    count = sum(str(event.get("name")).startswith(("before", "after")) for event in builder.events)
    assert count == unpaired(table) + 2 * len(ranges(table))


anything = st.lists(st.tuples(names | st.just("other"), st.integers(0, 30), st.integers(0, 12), st.integers(1, 2)))


@given(anything)
@examples(100, 1000)
def test_any_interleaving_is_read(events: list[tuple[str, int, int, int]]) -> None:
    builder = trace().op("aten::mm", 0, 1)
    for name, at, dur, tid in events:
        builder.annotation(name, at, dur, tid=tid)
    table = builder.table()
    assert sum(name != "other" for name, *_ in events) == unpaired(table) + 2 * len(ranges(table))
    rows(table, "phases")
