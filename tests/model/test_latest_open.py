"""Who is innermost when: the latest-started row that is open, also where rows cross."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.model.trace.tree import latest_open
from tests.depth import examples


def found(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    starts, ends = zip(*spans, strict=True) if spans else ((), ())
    times, rows = latest_open(np.array(starts, np.int64), np.array(ends, np.int64))
    return list(zip(times.tolist(), rows.tolist(), strict=True))


def test_children_and_what_is_left_of_their_parent() -> None:
    assert found([(0, 100), (10, 30), (20, 30), (40, 40), (50, 60)]) == [
        (0, 0), (10, 1), (20, 2), (30, 0), (40, 0), (50, 4), (60, 0), (100, -1),
    ]  # fmt: skip


def test_rows_that_cross() -> None:
    assert found([(0, 30), (20, 50), (25, 35)]) == [(0, 0), (20, 1), (25, 2), (30, 2), (35, 1), (50, -1)]
    assert found([]) == []


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), max_size=25)


@given(spans)
@examples(suite=25, deep=1_000)
def test_any_rows(drawn: list[tuple[int, int]]) -> None:
    rows = sorted((start, start + length) for start, length in drawn)
    for time, row in found(rows):
        assert row == max((i for i, (start, end) in enumerate(rows) if start <= time < end), default=-1)
