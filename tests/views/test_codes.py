"""Codes of columns without a sort are those that a sort gives."""

from __future__ import annotations

import numpy as np
import pytest

from tb_plugin.lib.groupby import distinct_rows, group_sorted, side_by_side


@pytest.mark.parametrize("rows", [0, 1, 5, 300])
@pytest.mark.parametrize(("low", "high"), [(0, 3), (-5, 5), (7, 2000), (0, 10**6), (-(2**62), 2**62)])
def test_distinct_values_are_those_of_a_sort(rows: int, low: int, high: int) -> None:
    column = np.random.default_rng(rows).integers(low, high, rows)
    _, first, which = np.unique(column, return_index=True, return_inverse=True)
    found = group_sorted(column)
    assert found.first.tolist() == first.tolist()
    assert found.of.tolist() == which.tolist()


@pytest.mark.parametrize("rows", [0, 1, 5, 300])
@pytest.mark.parametrize(("low", "high"), [(0, 3), (-5, 5), (0, 10**6), (-(2**62), 2**62)])
def test_distinct_rows_are_those_of_a_sort_of_whole_rows(rows: int, low: int, high: int) -> None:
    rng = np.random.default_rng(rows)
    one, other = rng.integers(low, high, rows), rng.integers(-1, 4, rows)
    expected = np.unique(np.stack([one, other], axis=1), axis=0)
    assert np.stack(distinct_rows(one, other), axis=1).tolist() == expected.tolist()


@pytest.mark.parametrize("rows", [0, 1, 5, 300])
@pytest.mark.parametrize("far", [3, 10**6, 2**62])
def test_times_on_one_axis_are_in_order_of_their_keys_then_their_own(rows: int, far: int) -> None:
    rng = np.random.default_rng(rows)
    key, start, end = rng.integers(0, 9, rows), rng.integers(-far, far, rows), rng.integers(-far, far, rows)
    found = np.concatenate(side_by_side((key, start), (key, end)))
    keys, times = np.tile(key, 2), np.concatenate((start, end))
    order = np.lexsort((times, keys))
    same = (np.diff(keys[order]) == 0) & (np.diff(times[order]) == 0)
    assert ((np.diff(found[order]) == 0) == same).all() and (np.diff(found[order]) >= 0).all()
