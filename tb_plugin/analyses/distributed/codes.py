"""Whole numbers that stand for combinations of columns, and counts of what repeats."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


def codes(*columns: Int64) -> Int64:
    """Returns a code for each row of some columns of whole numbers of equal length; codes are less than twice the rows."""
    code, count, rows = np.zeros(len(columns[0]), np.int64), 1, len(columns[0])
    for column in columns:
        if rows and (column.min() < 0 or column.max() >= rows):
            column = _dense(column)
        size = int(column.max(initial=0)) + 1
        code, count = code * size + column, count * size
        if count > 2 * rows:
            code = _dense(code)
            count = int(code.max(initial=0)) + 1
    return code


def _dense(column: Int64) -> Int64:
    return np.unique(column, return_inverse=True)[1].astype(np.int64)


def ordered(key: Int64, value: Int64) -> Int64:
    """Returns rows in order of a key that is 0 or more, and of a value among those of one key, equal ones in any order."""
    if not len(key):
        return np.empty(0, np.int64)
    low, high = int(value.min()), int(value.max())
    span = high - low + 1
    if span * (int(key.max()) + 1) < 2**62:
        return np.argsort(key * span + (value - low))  # one sort in place of two
    rows: Int64 = np.lexsort((value, key))
    return rows


def occurrence(key: Int64) -> Int64:
    """Returns how many rows before each have the same key."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    fresh = np.diff(ordered, prepend=ordered[:1] - 1) != 0
    first = np.flatnonzero(fresh)
    found = np.empty(len(key), np.int64)
    found[order] = np.arange(len(key)) - np.repeat(first, np.diff(np.append(first, len(key))))
    return found
