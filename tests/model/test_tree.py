"""Nesting on a thread: cases from recordings, depth and cost. tests/property has its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tb_plugin.lib.groupby import side_by_side
from tb_plugin.model.trace.tree import inherit, nest

Events = list[tuple[int, int]]


def columns(events: Events) -> tuple[Any, Any, Any]:
    start, end = np.array(events, np.int64).reshape(-1, 2).T
    return np.zeros(len(start), np.int32), start, end


def nested(events: Events) -> tuple[list[int], list[int], list[bool]]:
    """Parents, rows and overlaps of events that are sorted by (start, longest first)."""
    found = nest(*columns(events))
    return found.parent.tolist(), found.depth.tolist(), found.overlaps.tolist()


def test_clean_nesting() -> None:
    parent, depth, overlaps = nested([(0, 100), (10, 50), (20, 30), (30, 50), (60, 70), (100, 110)])
    assert parent == [-1, 0, 1, 1, 0, -1]
    assert depth == [0, 1, 2, 2, 1, 0]
    assert not any(overlaps)


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


def test_ten_thousand_levels() -> None:
    events = [(i, 40_000 - i) for i in range(10_000)]
    parent, depth, _ = nested(events)
    assert parent == list(range(-1, 9_999))
    assert depth == list(range(10_000))


def test_more_levels_than_rows_can_be_drawn() -> None:
    found = nest(*columns([(i, 100_000 - i) for i in range(33_000)]))
    assert found.depth.max() == 32_767
    assert found.parent.tolist() == list(range(-1, 32_999))


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


@pytest.mark.parametrize("century", [1, 3 * 10**18], ids=["a moment", "a century"])
@pytest.mark.parametrize("tracks", [2, 5_000])
def test_tracks_lie_behind_each_other_on_one_axis(century: int, tracks: int) -> None:
    """Also where no 64 bits hold all tracks of such a length end to end."""
    track = np.repeat(np.arange(tracks), 3)
    time = np.tile(np.array([-century, 0, century], np.int64), tracks)
    axis, again = side_by_side((track, time), (track[::-1], time[::-1]))
    assert (axis[1:] > axis[:-1]).all() and (again[::-1] == axis).all()
