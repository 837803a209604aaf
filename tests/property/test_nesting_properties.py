"""Nesting against its definition, asked of every pair: a parent is the latest-started open event that encloses it whole."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tb_plugin.model.trace.tree import _nest_crossing, inherit, innermost_at, nest, parents_among, self_time

Event = tuple[int, int, int]
"""Track, start, end."""

anywhere = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 12)), max_size=14)


def in_order(drawn: list[Event]) -> list[Event]:
    events = [(track, start, start + dur) for track, start, dur in drawn]
    return sorted(events, key=lambda e: (e[1], -e[2]))


def columns(events: list[Event]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    track, start, end = np.array(events, np.int64).reshape(-1, 3).T
    return track.astype(np.int32), start, end


def is_open(event: Event, track: int, time: int) -> bool:
    return event[0] == track and event[1] <= time < event[2]


def parents(events: list[Event]) -> list[int]:
    return [
        max((j for j in range(i) if is_open(events[j], track, start) and events[j][2] >= end), default=-1)
        for i, (track, start, end) in enumerate(events)
    ]


def crossing(events: list[Event]) -> list[bool]:
    """Whether an event outlives an open one that started before it."""
    return [
        any(is_open(events[j], track, start) and events[j][2] < end for j in range(i))
        for i, (track, start, end) in enumerate(events)
    ]


def clean(events: list[Event]) -> list[Event]:
    """The events that cross none of those kept."""
    kept: list[Event] = []
    for event in events:
        if not crossing([*kept, event])[-1]:
            kept.append(event)
    return kept


@given(anywhere)
@example([(0, 0, 10), (0, 10, 0), (0, 5, 0), (0, 5, 0)])
@example([(0, 0, 10), (0, 5, 10), (0, 7, 2), (0, 20, 0)])
@example([(0, 0, 10), (0, 0, 10), (0, 0, 10), (0, 0, 5), (0, 5, 5)])
@example([])
def test_nest_is_its_definition(drawn: list[Event]) -> None:
    events = in_order(drawn)
    found = nest(*columns(events))
    assert found.parent.tolist() == parents(events)
    assert found.overlaps.tolist() == crossing(events)


@given(anywhere)
def test_an_event_is_drawn_a_row_below_all_open_ones(drawn: list[Event]) -> None:
    events = in_order(drawn)
    depth = nest(*columns(events)).depth.tolist()
    for i, (track, start, _) in enumerate(events):
        assert depth[i] == 1 + max((depth[j] for j in range(i) if is_open(events[j], track, start)), default=-1)


@given(anywhere)
def test_the_vectorised_path_equals_the_loop(drawn: list[Event]) -> None:
    events = [event for event in clean(in_order(drawn)) if event[0] == 0]
    track, start, end = columns(events)
    fast = nest(track, start, end)
    parent, depth = np.full(len(start), -1, np.int64), np.zeros(len(start), np.int64)
    overlaps = np.zeros(len(start), np.bool_)
    _nest_crossing(0, start, end, parent, depth, overlaps)
    assert fast.parent.tolist() == parent.tolist()
    assert fast.depth.tolist() == depth.tolist()
    assert not fast.overlaps.any() and not overlaps.any()


@given(anywhere, st.randoms(use_true_random=False))
def test_some_rows_of_a_clean_nesting_nest_as_they_do_alone(drawn: list[Event], random: Random) -> None:
    events = clean(in_order(drawn))
    track, start, end = columns(events)
    chosen = np.flatnonzero([random.random() < 0.5 for _ in events])
    alone = nest(track[chosen], start[chosen], end[chosen])
    assert parents_among(nest(track, start, end).parent, chosen).tolist() == alone.parent.tolist()


@given(anywhere)
def test_times_of_centuries_change_nothing(drawn: list[Event]) -> None:
    events = in_order(drawn)
    near, far = columns(events), columns([(t, s * 2**56, e * 2**56) for t, s, e in events])
    for column in ("parent", "depth", "overlaps"):
        assert getattr(nest(*far), column).tolist() == getattr(nest(*near), column).tolist()


@given(anywhere, st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 45)), max_size=10))
def test_innermost_is_its_definition(drawn: list[Event], points: list[tuple[int, int]]) -> None:
    events = in_order(drawn)
    track, start, end = columns(events)
    at_track, at = np.array(points, np.int64).reshape(-1, 2).T
    found = innermost_at(track, start, end, nest(track, start, end).parent, at_track.astype(np.int32), at)
    assert found.tolist() == [
        max((j for j, event in enumerate(events) if is_open(event, t, time)), default=-1) for t, time in points
    ]


@given(anywhere)
def test_self_time_is_what_no_child_covers(drawn: list[Event]) -> None:
    events = in_order(drawn)
    track, start, end = columns(events)
    nesting = nest(track, start, end)
    parent = nesting.parent
    own = self_time(start, end, parent, nesting.overlaps).tolist()
    for i, (_, begin, stop) in enumerate(events):
        children = [events[j] for j in range(len(events)) if parent[j] == i]
        assert own[i] == sum(not any(c[1] <= t < c[2] for c in children) for t in range(begin, stop))
        assert 0 <= own[i] <= stop - begin


@given(st.lists(st.tuples(st.integers(-1, 20), st.integers(-1, 3)), max_size=20))
def test_inherit_is_its_definition(drawn: list[tuple[int, int]]) -> None:
    parent = [min(p, i - 1) for i, (p, _) in enumerate(drawn)]
    value = [v for _, v in drawn]

    def nearest(i: int) -> int:
        return -1 if i < 0 else value[i] if value[i] >= 0 else nearest(parent[i])

    found = inherit(np.array(value, np.int32), np.array(parent, np.int32))
    assert found.tolist() == [nearest(i) for i in range(len(drawn))]
