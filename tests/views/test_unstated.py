"""Groups that calls do not state: told by the ranks that have them, and only where nothing else explains it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tb_plugin.views.distributed.matching.groups import ReportedGroup
from tb_plugin.views.distributed.matching.infer_groups import fill_from_collective, group_from_ranks
from tb_plugin.views.distributed.matching.match import Calls, match

PAIR, ALL = "[0, 1]", "[0, 1, 2, 3]"
WORLD, HALF = 0, 1
"""Kinds of calls."""
LISTED = [ReportedGroup(w, "0", ALL, "world") for w in range(4)] + [ReportedGroup(w, "1", PAIR, "half") for w in (0, 1)]
NO_STEP = 9


def told(
    of_rank: Sequence[Sequence[tuple[int, int]]],
    listed: Sequence[ReportedGroup] = LISTED,
    alike: bool = True,
    ranks: Sequence[int | None] = range(4),
) -> list[str]:
    """What the calls of rank 0, (step, kind) each, are called."""
    rows = np.array([(w, step, kind) for w, calls in enumerate(of_rank) for step, kind in calls], np.int64)
    worker, step, kind = rows.T
    none, every = np.zeros(len(rows), np.bool_), np.ones(len(rows), np.bool_)
    calls = Calls(worker, step, worker * 0, worker * 0, kind, worker * 0 - 1, none, none, NO_STEP)
    found, groups = group_from_ranks(calls, match(calls), every, every & alike, ranks, listed)
    return [groups[at][1] if at >= 0 else "" for at in found[worker == 0].tolist()]


BOTH = [(step, kind) for step in range(2) for kind in (HALF, WORLD)]
ONE = [(step, WORLD) for step in range(2)]


def test_what_just_the_ranks_of_a_group_have_in_every_step_is_its_own() -> None:
    assert told([BOTH, BOTH, ONE, ONE]) == ["half", "", "half", ""]


@pytest.mark.parametrize(
    "of_rank",
    [
        pytest.param([BOTH, BOTH, [*ONE, (1, HALF)], ONE], id="a third rank has one of them"),
        pytest.param([BOTH, BOTH, ONE[:1], ONE], id="rank 2 recorded one step only"),
        pytest.param([BOTH[:2], BOTH[:2], ONE[:1], ONE[:1]], id="there is one only"),
        pytest.param([BOTH, [*BOTH[:2], BOTH[3]], ONE, ONE], id="rank 1 lacks one"),
        pytest.param([BOTH, ONE, BOTH, ONE], id="these ranks are no group"),
        pytest.param([[*BOTH, (NO_STEP, HALF)]] * 2 + [[*ONE, (NO_STEP, WORLD)]] * 2, id="one is in no step"),
    ],
)
def test_what_may_be_lost_elsewhere_is_nobodys(of_rank: Sequence[Sequence[tuple[int, int]]]) -> None:
    assert set(told(of_rank)) == {""}


def test_a_group_is_told_only_where_it_is_the_only_one() -> None:
    calls = [BOTH, BOTH, ONE, ONE]
    assert set(told(calls, LISTED[:-1])) == {""}, "rank 1 does not list it"
    again = [ReportedGroup(w, "2", PAIR, "other") for w in (0, 1)]
    assert set(told(calls, [*LISTED, *again])) == {""}, "two groups have these ranks"
    cut = [ReportedGroup(w, "1", "[0, ..., 1]", "half") for w in (0, 1)]
    assert set(told(calls, [*LISTED[:4], *cut])) == {""}
    assert set(told(calls, alike=False)) == {""}, "ranks may give different sizes"
    assert set(told(calls, ranks=[0, 1, 2, None])) == {""}
    assert told(calls, ranks=[1, 0, 3, 2]) == ["half", "", "half", ""], "ranks, not places"
    assert set(told(calls, ranks=[3, 2, 1, 0])) == {""}


def test_no_calls_tell_no_group() -> None:
    empty, none = np.empty(0, np.int64), np.zeros(0, np.bool_)
    calls = Calls(empty, empty, empty, empty, empty, empty, none, none, NO_STEP)
    assert group_from_ranks(calls, empty, none, none, range(4), LISTED)[0].tolist() == []


def test_what_one_call_says_holds_for_its_collective() -> None:
    label, size = np.array([0, 0, 1, 1, -1, 2, 2]), np.array([-1, 8, -1, -1, -1, 4, 6])
    assert fill_from_collective(label, size).tolist() == [8, 8, -1, -1, -1, 4, 6]
    assert fill_from_collective(np.array([-1, -1]), np.array([3, -1])).tolist() == [3, -1]
