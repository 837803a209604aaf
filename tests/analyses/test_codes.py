"""Codes of columns without a sort are those that a sort gives."""

from __future__ import annotations

import numpy as np
import pytest

from tb_plugin.analyses.distributed.matching.codes import distinct, distinct_rows


@pytest.mark.parametrize("rows", [0, 1, 5, 300])
@pytest.mark.parametrize(("low", "high"), [(0, 3), (-5, 5), (7, 2000), (0, 10**6), (-(2**62), 2**62)])
def test_distinct_values_are_those_of_a_sort(rows: int, low: int, high: int) -> None:
    column = np.random.default_rng(rows).integers(low, high, rows)
    _, first, which = np.unique(column, return_index=True, return_inverse=True)
    found = distinct(column)
    assert found[0].tolist() == first.tolist()
    assert found[1].tolist() == which.tolist()


@pytest.mark.parametrize("rows", [0, 1, 5, 300])
@pytest.mark.parametrize(("low", "high"), [(0, 3), (-5, 5), (0, 10**6), (-(2**62), 2**62)])
def test_distinct_rows_are_those_of_a_sort_of_whole_rows(rows: int, low: int, high: int) -> None:
    rng = np.random.default_rng(rows)
    one, other = rng.integers(low, high, rows), rng.integers(-1, 4, rows)
    expected = np.unique(np.stack([one, other], axis=1), axis=0)
    assert np.stack(distinct_rows(one, other), axis=1).tolist() == expected.tolist()
