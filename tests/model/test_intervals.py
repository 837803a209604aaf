"""Sets of time: the old plugin's cases and the bounds of everything."""

from __future__ import annotations

import numpy as np
import pytest

from tb_plugin.lib.intervals import (
    EMPTY,
    Ranges,
    covered_before,
    first_in,
    intersect,
    join,
    measure,
    measure_within,
    subtract,
    union,
)

Pairs = list[tuple[int, int]]


def ranges(*pairs: tuple[int, int]) -> Ranges:
    start, end = np.array(pairs, np.int64).reshape(-1, 2).T
    return union(start, end)


def pairs(found: Ranges) -> Pairs:
    return list(zip(found.start.tolist(), found.end.tolist(), strict=True))


# torch-tb-profiler's test_ranges, in tenths
A = ((11, 22), (33, 44), (55, 66))
B = ((0, 1), (10, 14), (15, 16), (19, 34), (43, 46))


def test_overlapping_ranges_merge() -> None:
    merged = ranges((11, 22), (15, 23), (33, 39), (35, 36), (37, 38), (41, 42))
    assert pairs(merged) == [(11, 23), (33, 39), (41, 42)]


def test_subtract_and_intersect() -> None:
    assert pairs(subtract(ranges(*A), ranges(*B))) == [(14, 15), (16, 19), (34, 43), (55, 66)]
    assert pairs(intersect(ranges(*A), ranges(*B))) == [(11, 14), (15, 16), (19, 22), (33, 34), (43, 44)]
    assert measure(ranges(*A)) == 33


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], []),
        ([(5, 5)], []),
        ([(7, 5)], []),
        ([(0, 5), (5, 9)], [(0, 9)]),
        ([(0, 5), (6, 9)], [(0, 5), (6, 9)]),
        ([(3, 4), (0, 9), (0, 2)], [(0, 9)]),
        ([(0, 5), (3, 3), (0, 5)], [(0, 5)]),
    ],
    ids=["none", "empty", "inverted", "touching", "apart", "inside", "twice"],
)
def test_union(given: Pairs, expected: Pairs) -> None:
    assert pairs(ranges(*given)) == expected


def test_nothing_is_neutral() -> None:
    a = ranges(*A)
    assert pairs(subtract(a, EMPTY)) == pairs(join(a, EMPTY)) == pairs(a)
    assert pairs(intersect(a, EMPTY)) == pairs(subtract(EMPTY, a)) == pairs(join(EMPTY, EMPTY)) == []
    assert measure(EMPTY) == 0
    assert covered_before(EMPTY, np.array([-5, 0, 5])).tolist() == [0, 0, 0]


def test_touching_ranges_leave_no_seam() -> None:
    assert pairs(subtract(ranges((0, 10)), ranges((5, 10)))) == [(0, 5)]
    assert pairs(intersect(ranges((0, 5)), ranges((5, 10)))) == []
    assert pairs(join(ranges((0, 5)), ranges((5, 10)))) == [(0, 10)]


def test_covered_before_at_every_bound() -> None:
    times = np.array([-1, 0, 3, 5, 7, 10, 12, 20, 99])
    assert covered_before(ranges((0, 5), (10, 20)), times).tolist() == [0, 0, 3, 5, 5, 5, 7, 15, 15]


def test_windows() -> None:
    start, end = np.array([0, 4, 12, 30, 9, 20]), np.array([25, 12, 13, 40, 9, 4])
    found = measure_within(ranges((0, 5), (10, 20)), start, end)
    assert found.tolist() == [15, 3, 1, 0, 0, 0]  # the last window is inverted: empty


def test_epoch_nanoseconds_stay_exact() -> None:
    epoch = 1_700_000_000_000_000_001
    assert measure(ranges((epoch, epoch + 3), (epoch + 2, epoch + 10))) == 10


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 62, 63, 200])
def test_what_is_first_in_any_number_of_sets(count: int) -> None:
    """Set i covers [10 i, 10 i + 15) and [5000, 5001 + i): what the sets before it leave is counted by hand."""
    sets = [union(np.array([10 * i, 5000]), np.array([10 * i + 15, 5001 + i])) for i in range(count)]
    found = [list(zip(each.start.tolist(), each.end.tolist(), strict=True)) for each in first_in(*sets)]
    right = [[(10 * i + 5 * (i > 0), 10 * i + 15), (5000 + i, 5001 + i)] for i in range(count)]
    assert found == right
