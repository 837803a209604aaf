"""What workers do from one collective to another, also where one lacks those in between."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.views.distributed.stragglers.calls import StragglerCalls
from tb_plugin.views.distributed.stragglers.intervals import Stretches, activities_before_bursts, first_of_burst
from tb_plugin.views.distributed.waiting import ESTIMATED, TIMINGS
from tests.jobs_of_ranks import Job

Int64 = npt.NDArray[np.int64]
A, B, C, D = range(4)
BEFORE = {"compute": [5, 40, 5, 10, 10, 5, 20, 10], "idle": [0, 10, 0, 0, 0, 0, 0, 0], "copy": [0, 1, 2, 3, 4, 0, 0, 0]}


def calls() -> StragglerCalls:
    """Rank 0 (rows 0, 1) lacks B; rank 1 (rows 2 to 4) waits 10 for rank 2 (rows 5 to 7) in it. Data move for 10."""
    columns = {
        "worker": [0, 0, 1, 1, 1, 2, 2, 2], "step": [0] * 8, "group": [0] * 8, "place": [A, C, A, B, C, A, B, C],
        "sequence": [A, C, A, B, C, A, B, C], "size": [3] * 8,
        "start": [0, 60, 0, 20, 50, 0, 30, 50], "dur": [10, 10, 10, 20, 20, 10, 10, 20],
    }  # fmt: skip
    return Job({key: np.array(values, np.int64) for key, values in columns.items()}, np.array([70.0]), [0, 1, 2]).met()


def told(met: StragglerCalls, **changed: list[int]) -> Stretches:
    before = {key: np.array(values, np.int64) for key, values in {**BEFORE, **changed}.items()}
    return activities_before_bursts(met, before, first_of_burst(met))


def rows(*rows: int) -> Int64:
    return np.array(rows, np.int64)


def test_who_lacks_a_call_is_compared_since_the_last_one_that_all_have() -> None:
    met = calls()
    found = told(met)
    assert found.before.tolist() == [-1, 0, -1, 2, 3, -1, 5, 6]
    leader, others = rows(1, 1), rows(4, 7)
    there = found.same_call(leader, others)
    assert there.tolist() == [2, 5]
    since = found.since(others, there)
    assert found.is_complete(others, since).all()
    assert found.done("compute", others, since).tolist() == [20, 30]
    assert found.done("copy", others, since).tolist() == [7, 0]
    # Rank 0 seems idle in the call that is not here: so the others are taken to be, as long as it takes.
    assert found.done("idle", others, since).tolist() == [20, 10]
    mine = found.since(leader, found.before[leader])
    assert [int(found.done(key, leader, mine)[0]) for key in BEFORE] == [40, 10, 1]


def test_who_came_last_at_the_call_that_it_lacks_waited_for_nobody_in_it() -> None:
    met = calls()
    late = replace(
        met.waiting, timing=np.where(met.match == met.match[3], TIMINGS.index(ESTIMATED), met.waiting.timing)
    )
    found = told(replace(met, waiting=late))
    assert found.done("idle", rows(4, 7), found.since(rows(4, 7), rows(2, 5))).tolist() == [10, 10]


def test_what_the_others_hide_in_the_call_is_computation() -> None:
    met = calls()
    found = told(replace(met, blocked_ns=np.where(met.match == met.match[3], 0, met.dur_ns)))
    since = found.since(rows(4, 7), rows(2, 5))
    assert found.done("compute", rows(4, 7), since).tolist() == [20 + 20, 30 + 10]
    assert found.done("idle", rows(4, 7), since).tolist() == [0, 0]


def test_calls_without_a_match_are_passed_over_and_what_is_not_known_is_not_compared() -> None:
    met = calls()
    # Nobody else has what rank 1 has between A and C.
    alone = told(replace(met, match=np.where(np.arange(8) == 3, -1, met.match)))
    assert alone.before.tolist() == [-1, 0, -1, 2, 2, -1, 5, 6]
    assert alone.done("compute", rows(4), alone.since(rows(4), rows(2))).tolist() == [20]
    # Data move for 10 where it meets the others.
    assert alone.done("idle", rows(4), alone.since(rows(4), rows(2))).tolist() == [10]
    unknown = told(met, copy=[0, 1, 2, -1, 4, 0, 0, 0])
    assert unknown.is_complete(rows(4, 7), unknown.since(rows(4, 7), rows(2, 5))).tolist() == [False, True]
    assert unknown.is_complete(rows(4), unknown.since(rows(4), rows(3))).tolist() == [True]


def test_a_call_is_not_before_those_under_way_with_it_at_once() -> None:
    met = calls()
    # On rank 1 all three are: what stands before C stands before A as well.
    found = told(replace(met, dur_ns=np.where(met.worker == 1, 60, met.dur_ns)))
    assert found.same_call(rows(1, 1), rows(4, 7)).tolist() == [-1, 5]
    assert found.before[4] == -1 and found.opens.tolist() == [0] * 8
