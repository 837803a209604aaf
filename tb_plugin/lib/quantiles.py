"""Quantiles of the rows of each key, a column at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.codes import ordered

Int64 = npt.NDArray[np.int64]

TO_DEVIATION = 1.4826
"""The standard deviation of normal values over the median of their distances from the middle."""


def quantile_by(key: Int64, values: Int64, count: int, hundredths: int) -> Int64:
    """Returns for each of ``count`` keys the smallest value that so many hundredths of its rows do not exceed; 0 for no row.

    ``hundredths`` is 50 for the lower median and 100 for the largest value.
    """
    rows = np.bincount(key, minlength=count)
    found = np.zeros(count, np.int64)
    filled = rows > 0
    if filled.any():
        at = np.cumsum(rows) - rows + np.maximum(-(-rows * hundredths // 100), 1) - 1
        found[filled] = values[ordered(key, values)][at[filled]]
    return found


def median_by(key: Int64, values: Int64, count: int) -> Int64:
    """Returns for each of ``count`` keys the median of its rows, of an even number the middle of both; 0 for no row."""
    rows = np.bincount(key, minlength=count)
    found = np.zeros(count, np.int64)
    filled = rows > 0
    if filled.any():
        in_order = values[ordered(key, values)]
        first = (np.cumsum(rows) - rows)[filled]
        low, high = in_order[first + (rows[filled] - 1) // 2], in_order[first + rows[filled] // 2]
        found[filled] = low + (high - low) // 2
    return found
