"""Nesting on a thread: who encloses whom, what is open when, and whose time is whose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tb_plugin.lib.groupby import side_by_side
from tb_plugin.model.trace.tree import inherit, innermost_at, nest, self_time

Events = list[tuple[int, int]]


def columns(events: Events, track: int = 0) -> tuple[Any, Any, Any]:
    start, end = np.array(events, np.int64).reshape(-1, 2).T
    return np.full(len(start), track, np.int32), start, end


def nested(events: Events) -> tuple[list[int], list[int], list[bool]]:
    """Parents, rows and overlaps of events that are sorted by (start, longest first)."""
    found = nest(*columns(events))
    return found.parent.tolist(), found.depth.tolist(), found.overlaps.tolist()


def parents(events: Events) -> list[int]:
    return nested(events)[0]


def test_clean_nesting() -> None:
    parent, depth, overlaps = nested([(0, 100), (10, 50), (20, 30), (30, 50), (60, 70), (100, 110)])
    assert parent == [-1, 0, 1, 1, 0, -1]
    assert depth == [0, 1, 2, 2, 1, 0]
    assert not any(overlaps)


def test_equal_bounds_nest_in_the_order_given() -> None:
    assert parents([(0, 10), (0, 10), (0, 10)]) == [-1, 0, 1]
    assert parents([(0, 10), (0, 5), (5, 10)]) == [-1, 0, 0]


def test_an_event_that_begins_at_another_s_end_is_its_sibling() -> None:
    assert parents([(0, 10), (10, 20), (20, 20)]) == [-1, -1, -1]


def test_events_without_length_have_parents_and_no_children() -> None:
    assert parents([(0, 10), (0, 0), (0, 0), (5, 5), (10, 10)]) == [-1, 0, 0, 0, -1]
    assert parents([(5, 9), (5, 5), (5, 5)]) == [-1, 0, 0]
    assert parents([(5, 5), (5, 5)]) == [-1, -1]


def test_no_events() -> None:
    assert nested([]) == ([], [], [])


def test_siblings_that_overlap_in_part() -> None:
    """C2: aten::copy_ (893-968) and its child (901-979): the child outlives it, so it is none."""
    parent, depth, overlaps = nested([(893, 968), (901, 979)])
    assert (parent, depth, overlaps) == ([-1, -1], [0, 1], [False, True])


def test_an_operator_across_the_end_of_a_step() -> None:
    """C3: the operator belongs to whatever encloses it whole, here nothing; what it encloses is its own."""
    parent, _, overlaps = nested([(0, 100), (90, 110), (92, 98), (95, 105)])
    assert parent == [-1, -1, 1, 1]
    assert overlaps == [False, True, False, True]  # what sticks out of the step with it crosses the step as well


def test_an_annotation_across_python_frames() -> None:
    """C4: the frame around both is the parent of both; the crossing one stands on a row of its own."""
    parent, depth, overlaps = nested([(0, 1000), (10, 50), (40, 80), (45, 48), (60, 70)])
    assert parent == [-1, 0, 0, 2, 2]
    assert depth == [0, 1, 2, 3, 3]
    assert overlaps == [False, False, True, False, False]


def test_crossing_ranges_of_dispatch_modes() -> None:
    """C5: three ranges, each beginning in the one before and ending after it."""
    parent, depth, overlaps = nested([(0, 30), (10, 40), (20, 50), (25, 28)])
    assert parent == [-1, -1, -1, 2]
    assert depth == [0, 1, 2, 3]
    assert overlaps == [False, True, True, False]


def test_an_event_inside_both_of_a_crossing_pair_belongs_to_the_later() -> None:
    assert parents([(0, 30), (20, 40), (22, 25)]) == [-1, -1, 1]


def test_an_event_that_fits_only_the_earlier_of_a_crossing_pair() -> None:
    # (0, 100) encloses it; the two open later ones do not
    parent, _, overlaps = nested([(0, 100), (10, 30), (20, 40), (25, 60)])
    assert parent == [-1, 0, 0, 0]
    assert overlaps == [False, False, True, True]


def test_rows_of_other_tracks_never_nest() -> None:
    track, start, end = columns([(0, 100), (10, 20), (10, 20)])
    track[1] = 5
    assert nest(track, start, end).parent.tolist() == [-1, -1, 0]


def test_a_crossing_leaves_clean_stretches_alone() -> None:
    clean = [(0, 10), (2, 5)]
    assert parents([*clean, (20, 30), (25, 35), (26, 27), (50, 60), (51, 59), (52, 53)]) == [-1, 0, -1, -1, 3, -1, 5, 6]


def test_ten_thousand_levels() -> None:
    events = [(i, 40_000 - i) for i in range(10_000)]
    parent, depth, _ = nested(events)
    assert parent == list(range(-1, 9_999))
    assert depth == list(range(10_000))


def test_more_levels_than_rows_can_be_drawn() -> None:
    found = nest(*columns([(i, 100_000 - i) for i in range(33_000)]))
    assert found.depth.max() == 32_767
    assert found.parent.tolist() == list(range(-1, 32_999))


@pytest.mark.parametrize(
    ("time", "expected"), [(-1, -1), (0, 0), (9, 0), (10, 1), (15, 2), (19, 2), (20, 1), (29, 1), (30, 0), (100, -1)]
)
def test_innermost_is_open_from_its_start_until_before_its_end(time: int, expected: int) -> None:
    track, start, end = columns([(0, 100), (10, 30), (15, 20)])
    parent = nest(track, start, end).parent
    assert innermost_at(track, start, end, parent, np.array([0], np.int32), np.array([time])).tolist() == [expected]


def test_innermost_among_crossing_events_is_the_latest_started_open_one() -> None:
    track, start, end = columns([(0, 30), (20, 40), (22, 25)])
    parent = nest(track, start, end).parent
    at = np.array([21, 23, 26, 30, 39, 40])
    assert innermost_at(track, start, end, parent, np.zeros(6, np.int32), at).tolist() == [1, 2, 1, 1, 1, -1]


def test_innermost_on_a_track_without_rows() -> None:
    track, start, end = columns([(0, 30)])
    parent = nest(track, start, end).parent
    assert innermost_at(track, start, end, parent, np.array([7, 0], np.int32), np.array([5, 5])).tolist() == [-1, 0]
    nothing = np.empty(0, np.int32)
    assert innermost_at(nothing, nothing, nothing, nothing, np.array([0], np.int32), np.array([5])).tolist() == [-1]


def self_times(events: Events) -> list[int]:
    track, start, end = columns(events)
    nesting = nest(track, start, end)
    return self_time(start, end, nesting.parent, nesting.overlaps).tolist()


def test_self_time_leaves_out_direct_children_only() -> None:
    assert self_times([(0, 100), (10, 50), (20, 30), (60, 70)]) == [50, 30, 10, 10]


def test_self_time_of_children_that_overlap_counts_the_overlap_once() -> None:
    assert self_times([(0, 100), (10, 30), (20, 40), (90, 100)]) == [60, 20, 20, 10]


def test_self_time_of_an_event_that_its_child_fills() -> None:
    assert self_times([(0, 10), (0, 10), (3, 3)]) == [0, 10, 0]


def test_inherit_takes_the_nearest_ancestor_s_value() -> None:
    parent = np.array([-1, 0, 1, 2, -1, 4, 5], np.int32)
    value = np.array([-1, 7, -1, -1, -1, -1, 9], np.int32)
    assert inherit(value, parent).tolist() == [-1, 7, 7, 7, -1, -1, 9]


def test_inherit_over_a_long_chain() -> None:
    n = 10_000
    parent, value = np.arange(-1, n - 1, dtype=np.int32), np.full(n, -1, np.int32)
    value[0], value[5_000] = 1, 2
    assert inherit(value, parent).tolist() == [1] * 5_000 + [2] * 5_000


def test_events_that_all_cross_each_other_take_n_log_n() -> None:
    """40,000 events, each of which overlaps 20,000 others: with a look at all open ones this would take minutes."""
    n, open_at_once = 40_000, 20_000
    found = nest(*columns([(i, i + open_at_once) for i in range(n)]))
    assert found.overlaps.tolist() == [False] + [True] * (n - 1)
    assert (found.parent == -1).all()
    # The first one closes when number 20,000 begins; the deepest stays open, so that the next row is deeper still.
    assert found.depth[:3].tolist() == [0, 1, 2] and found.depth[open_at_once] == open_at_once


def naive_crossing(events: Events) -> tuple[list[int], list[int], list[bool]]:
    """What ``nest`` has to find, by looking at all earlier rows."""
    parent, depth, overlaps = [], [], []
    for i, (start, end) in enumerate(events):
        still = [j for j in range(i) if events[j][1] > start]
        parent.append(max((j for j in still if events[j][1] >= end), default=-1))
        overlaps.append(any(events[j][1] < end for j in still))
        depth.append(1 + max((depth[j] for j in still), default=-1))
    return parent, depth, overlaps


@pytest.mark.parametrize("seed", range(60))
def test_crossing_events_are_what_a_look_at_all_of_them_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start, length = rng.integers(0, 30, 25), rng.integers(0, 20, 25)
    events = sorted(zip(start.tolist(), (start + length).tolist(), strict=True), key=lambda e: (e[0], e[0] - e[1]))
    assert nested(events) == naive_crossing(events)


@pytest.mark.parametrize("century", [1, 3 * 10**18], ids=["a moment", "a century"])
@pytest.mark.parametrize("tracks", [2, 5_000])
def test_tracks_lie_behind_each_other_on_one_axis(century: int, tracks: int) -> None:
    """Also where no 64 bits hold all tracks of such a length end to end."""
    track = np.repeat(np.arange(tracks), 3)
    time = np.tile(np.array([-century, 0, century], np.int64), tracks)
    axis, again = side_by_side((track, time), (track[::-1], time[::-1]))
    assert (axis[1:] > axis[:-1]).all() and (again[::-1] == axis).all()
