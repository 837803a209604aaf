"""Interval algebra against bitmaps: every nanosecond of a small world is asked by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tb_plugin.lib.intervals import (
    Ranges,
    contains,
    covered_before,
    first_in,
    intersect,
    join,
    measure,
    measure_by,
    measure_within,
    overlaps,
    subtract,
    union,
)

WORLD = 60
Pairs = list[tuple[int, int]]
pairs = st.lists(st.tuples(st.integers(0, WORLD), st.integers(0, WORLD)), max_size=12)


def make(given_pairs: Pairs) -> Ranges:
    start, end = np.array(given_pairs, np.int64).reshape(-1, 2).T
    return union(start, end)


def bits(given_pairs: Pairs) -> set[int]:
    return {t for start, end in given_pairs for t in range(start, end)}


def back(ranges: Ranges) -> set[int]:
    return bits(list(zip(ranges.start.tolist(), ranges.end.tolist(), strict=True)))


def assert_canonical(ranges: Ranges) -> None:
    assert (ranges.end > ranges.start).all()
    assert (ranges.start[1:] > ranges.end[:-1]).all(), "sorted, disjoint, not touching"


# Cases of torch-tb-profiler, touching ranges, and ranges without length or with their ends exchanged.
@given(pairs)
@example([(11, 22), (15, 23), (33, 39), (35, 36), (37, 38), (41, 42)])
@example([(0, 5), (5, 9), (6, 9), (5, 5), (7, 5)])
def test_union(given_pairs: Pairs) -> None:
    found = make(given_pairs)
    assert_canonical(found)
    assert back(found) == bits(given_pairs)
    assert measure(found) == len(bits(given_pairs))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(join, set.union), (intersect, set.intersection), (subtract, set.difference)],
    ids=["join", "intersect", "subtract"],
)
@given(pairs, pairs)
def test_algebra(
    ours: Callable[[Ranges, Ranges], Ranges], theirs: Callable[[set[int], set[int]], set[int]], a: Pairs, b: Pairs
) -> None:
    found = ours(make(a), make(b))
    assert_canonical(found)
    assert back(found) == theirs(bits(a), bits(b))


@given(pairs, st.lists(st.integers(-5, 60), max_size=8))
def test_contains(given_pairs: Pairs, times: list[int]) -> None:
    inside = contains(make(given_pairs), np.array(times, np.int64)).tolist()
    assert inside == [any(start <= time < end for start, end in given_pairs) for time in times]


@given(pairs, pairs)
def test_overlaps(given_pairs: Pairs, windows: Pairs) -> None:
    start, end = np.array(windows, np.int64).reshape(-1, 2).T
    expected = [bool(bits(given_pairs) & bits([window])) for window in windows]
    assert overlaps(make(given_pairs), start, end).tolist() == expected


@given(st.lists(pairs, min_size=1, max_size=4))
def test_first_in(sets: list[Pairs]) -> None:
    taken: set[int] = set()
    for given_pairs, found in zip(sets, first_in(*map(make, sets)), strict=True):
        assert_canonical(found)
        assert back(found) == bits(given_pairs) - taken
        taken |= bits(given_pairs)


@given(pairs, st.lists(st.integers(-5, WORLD + 5), min_size=1, max_size=8))
def test_covered_before(given_pairs: Pairs, times: list[int]) -> None:
    found = covered_before(make(given_pairs), np.array(times, np.int64))
    assert found.tolist() == [sum(t < time for t in bits(given_pairs)) for time in times]


@given(pairs, pairs)
def test_measure_within(given_pairs: Pairs, windows: Pairs) -> None:
    start, end = np.array(windows, np.int64).reshape(-1, 2).T
    found = measure_within(make(given_pairs), start, end)
    assert found.tolist() == [len(bits(given_pairs) & bits([window])) for window in windows]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, WORLD), st.integers(0, WORLD)), max_size=16))
def test_unions_by_key(rows: list[tuple[int, int, int]]) -> None:
    key, start, end = np.array(rows, np.int64).reshape(-1, 3).T
    expected = [len(bits([(a, b) for k, a, b in rows if k == wanted])) for wanted in range(5)]
    assert measure_by(key, start, end, 5).tolist() == expected


def test_epoch_nanoseconds_stay_exact() -> None:
    epoch = 1_700_000_000_000_000_001
    assert measure(make([(epoch, epoch + 3), (epoch + 2, epoch + 10)])) == 10


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 62, 63, 200])
def test_what_is_first_in_any_number_of_sets(count: int) -> None:
    """Set i covers [10 i, 10 i + 15) and [5000, 5001 + i): what the sets before it leave is counted by hand."""
    sets = [union(np.array([10 * i, 5000]), np.array([10 * i + 15, 5001 + i])) for i in range(count)]
    found = [list(zip(each.start.tolist(), each.end.tolist(), strict=True)) for each in first_in(*sets)]
    right = [[(10 * i + 5 * (i > 0), 10 * i + 15), (5000 + i, 5001 + i)] for i in range(count)]
    assert found == right
