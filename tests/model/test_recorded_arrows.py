"""Recorded arrows find the events at their ends, by hand-sized tables and by a plain recount."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import ArrowEnds, TraceTable
from tests.builders import HOST, TraceBuilder, kernel, name_of, part, trace

US = 1000
End = tuple[Any, Any, int]
"""Process, thread and microseconds."""


def with_arrows(builder: TraceBuilder, *arrows: tuple[str, End, End, bool]) -> TraceTable:
    """The trace with arrows of these names, from an end to an end; the flag says that the next event is meant."""
    raw = builder.raw_trace()
    texts = [raw.strings[i] for i in range(len(raw.strings))]

    def ids(values: list[Any]) -> Any:
        for text in map(str, values):
            if text not in texts:
                texts.append(text)
        return np.array([texts.index(str(value)) for value in values], np.int32)

    first = int(raw.start_ns.min())
    ends = {
        f"{side}_{column}": values
        for i, side in ((1, "start"), (2, "end"))
        for column, values in (
            ("pid", ids([arrow[i][0] for arrow in arrows])),
            ("tid", ids([arrow[i][1] for arrow in arrows])),
            ("time_ns", np.array([first + arrow[i][2] * US for arrow in arrows], np.int64)),
        )
    }
    names = ids([arrow[0] for arrow in arrows])
    to_next = np.array([arrow[3] for arrow in arrows], np.bool_)
    return assemble(replace(raw, strings=StringTable(texts), arrows=ArrowEnds(name=names, to_next=to_next, **ends)))


def told(table: TraceTable) -> list[str]:
    """Recorded arrows as they read."""
    columns = zip(table.arrows.tail, table.arrows.head, table.arrows.name, strict=True)
    return [f"{name_of(table, int(a))} {table.strings[int(n)]} {name_of(table, int(b))}" for a, b, n in columns]


def nested() -> TraceBuilder:
    """An operator in another one, one behind them, and an empty one; times begin at 0."""
    return trace().op("outer", 0, 50).op("inner", 10, 20).op("empty", 40, 0).op("later", 60, 10)


@pytest.mark.parametrize(
    ("time", "to_next", "head"),
    [
        (0, False, "outer"),
        (10, False, "inner"),  # what begins there counts
        (29, False, "inner"),
        (30, False, "outer"),  # what ends there does not
        (40, False, "empty"),  # unless it has no duration
        (55, False, None),
        (30, True, "empty"),
        (40, True, "empty"),
        (41, True, "later"),
        (60, True, "later"),
        (61, True, None),
        (0, True, "outer"),
    ],
)
def test_an_end_is_bound_to_what_is_around_it_or_to_what_begins_next(time: int, to_next: bool, head: str | None):
    table = with_arrows(nested(), ("a", (HOST, 1, 5), (HOST, 1, time), to_next))
    assert told(table) == ([f"outer a {head}"] if head else [])
    notes = [issue.count for issue in table.report.issues if issue.code == "unbound_arrow"]
    assert notes == ([] if head else [1])


def test_an_arrow_joins_threads_and_streams_and_an_unknown_thread_binds_nothing():
    builder = trace().op("a", 0, 10).op("b", 20, 10, tid=2).launches(kernel("k", 5, 40), at=22, dur=1)
    table = with_arrows(
        builder,
        ("x", (HOST, 1, 0), (HOST, 2, 20), False),
        ("y", (HOST, 2, 20), (0, 7, 41), False),
        ("z", (HOST, 1, 0), (HOST, 99, 20), True),
        ("z", (HOST, 99, 0), (HOST, 1, 0), False),
    )
    assert told(table) == ["a x b", "b y k"]
    assert [issue.count for issue in table.report.issues if issue.code == "unbound_arrow"] == [2]


def test_the_timeline_shows_recorded_arrows_with_their_names_from_both_ends():
    builder = trace().op("a", 0, 10).op("b", 20, 10).op("c", 40, 10)
    table = with_arrows(
        builder, ("next", (HOST, 1, 0), (HOST, 1, 20), False), ("next", (HOST, 1, 20), (HOST, 1, 40), False)
    )
    for event in (0, 1, 2):
        found: Any = part(table, "flows", extra=(("event", str(event)),)).payloads["flows"]
        joined = {(found.event[a], found.event[b]) for a, b in zip(found.from_, found.to, strict=True)}
        assert joined == {pair for pair in ((0, 1), (1, 2)) if event in pair}
        assert {found.names[label] for label in found.label} == {"next"}
        assert {found.kinds[kind] for kind in found.arrow} == {"recorded"}


@given(
    st.lists(st.tuples(st.integers(1, 2), st.integers(0, 20), st.integers(0, 8)), min_size=1, max_size=12),
    st.lists(
        st.tuples(st.integers(1, 2), st.integers(0, 24), st.integers(1, 2), st.integers(0, 24), st.booleans()),
        min_size=1,
        max_size=6,
    ),
)
def test_a_plain_recount_binds_the_same(rows: list[tuple[int, int, int]], wanted: list[Any]):
    builder = trace()
    for i, (tid, start, dur) in enumerate(rows):
        builder.annotation(f"n{i}", start, dur, tid=tid)
    first = min(start for _, start, _ in rows)
    arrows = [("a", (HOST, a, at - first), (HOST, b, to - first), to_next) for a, at, b, to, to_next in wanted]
    table = with_arrows(builder, *arrows)
    start, end = table.start_ns.tolist(), table.end_ns.tolist()
    tids = [int(table.tracks[t].tid) for t in table.track]

    def around(tid: int, at: int) -> int:
        at = (at - first) * US
        empty = [i for i in range(len(start)) if tids[i] == tid and start[i] == end[i] == at]
        return max(empty or [i for i in range(len(start)) if tids[i] == tid and start[i] <= at < end[i]], default=-1)

    def following(tid: int, at: int) -> int:
        return min((i for i in range(len(start)) if tids[i] == tid and start[i] >= (at - first) * US), default=-1)

    expected = [(around(a, at), following(b, to) if to_next else around(b, to)) for a, at, b, to, to_next in wanted]
    found = list(zip(table.arrows.tail.tolist(), table.arrows.head.tolist(), strict=True))
    assert found == sorted(pair for pair in expected if -1 not in pair)
