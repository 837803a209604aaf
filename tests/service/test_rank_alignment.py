"""Traces of several ranks on one time axis: the same cases as in ``frontend/src/lib/rankAxis.test.ts``."""

from __future__ import annotations

from tb_plugin.service.answers.rank_alignment import Aligned, RankClock, align

WALL = 1_795_200_788_000_000_000


def clock(
    wall: int | None, begins: int | None = None, drift: float = 0.0, group: int = 0, first_step: int = 0
) -> RankClock:
    return RankClock(wall, first_step, 1_000_000, begins, drift, group)


def test_corrected_clocks_say_when_each_trace_began() -> None:
    assert align([clock(WALL, 100), clock(WALL + 1700, 2100)]) == [
        Aligned(0, "corrected clocks"),
        Aligned(2000, "corrected clocks"),
    ]


def test_a_drift_is_right_in_the_middle_of_the_trace() -> None:
    assert align([clock(WALL, 0, 5e-6), clock(WALL, 50, 15e-6)])[1].shift_ns == 50 + 10


def test_without_a_corrected_clock_the_wall_clocks_decide() -> None:
    for other in (clock(WALL + 5), clock(WALL + 5, 7, group=1)):
        assert align([clock(WALL, 7), other])[1] == Aligned(5, "wall clocks")


def test_without_any_clock_the_first_steps_begin_together() -> None:
    assert align([clock(None, first_step=700), clock(WALL, first_step=300)])[1] == Aligned(400, "the first step")
