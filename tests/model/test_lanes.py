"""Lanes of operations on no thread, against a plain walk."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.model.trace.lanes import lanes


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(0, 5)), max_size=12))
def test_an_operation_takes_the_first_lane_that_is_free(spans: list[tuple[int, int, int]]) -> None:
    spans.sort(key=lambda span: (span[1], -span[2]))
    track, start, dur = (
        (np.array(column, np.int64) for column in zip(*spans, strict=True)) if spans else [np.empty(0, int)] * 3
    )
    found = lanes(track.astype(np.int32), np.arange(len(spans)), start, start + dur)
    taken: dict[tuple[int, int], int] = {}
    for (on, begin, length), lane in zip(spans, found.tolist(), strict=True):
        expected = next(n for n in range(len(spans)) if taken.get((on, n), -1) <= begin)
        assert lane == expected
        taken[on, lane] = begin + length


def test_parts_of_an_operation_stand_below_each_other_and_no_other_comes_between() -> None:
    start, end = np.array([0, 1, 2, 20, 21]), np.array([10, 9, 8, 22, 22])
    found = lanes(np.zeros(5, np.int32), np.array([7, 7, 3, 7, 3]), start, end)
    # Of two rows each: the second operation begins at the third lane, the next one takes the first again.
    assert found.tolist() == [0, 1, 2, 0, 2]
