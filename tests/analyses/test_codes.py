"""Codes of columns without a sort are those that a sort gives."""

from __future__ import annotations

import numpy as np
import pytest

from tb_plugin.analyses.distributed.matching.codes import distinct


@pytest.mark.parametrize("rows", [0, 1, 5, 300])
@pytest.mark.parametrize(("low", "high"), [(0, 3), (-5, 5), (7, 2000), (0, 10**6), (-(2**62), 2**62)])
def test_distinct_values_are_those_of_a_sort(rows: int, low: int, high: int) -> None:
    column = np.random.default_rng(rows).integers(low, high, rows)
    _, first, which = np.unique(column, return_index=True, return_inverse=True)
    found = distinct(column)
    assert found[0].tolist() == first.tolist()
    assert found[1].tolist() == which.tolist()
