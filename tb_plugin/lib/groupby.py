"""Group-by over columns: exact sums, quantiles and sort orders.

Each group has an index that starts at 0. ``group`` assigns indices by first appearance, and ``group_sorted`` in key
order. Functions whose name ends in ``_by`` take the group of each row and the number of groups.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.lib.arrays import Bool, Float64, Int32, Int64, UInt64

Whole = npt.NDArray[np.integer]

# Value for "not recorded" in integer columns.
MISSING = -1
# Standard deviation of a normal distribution divided by its median absolute deviation.
MAD_TO_DEVIATION = 1.4826
_FITS = 2**62
_SMALL = 2**15
# A lookup table replaces sorting if the value range is at most this many times the number of values.
_DENSE_RANGE_FACTOR = 8


class Groups(msgspec.Struct, frozen=True, eq=False):
    """A grouping of rows. ``of`` is the group index of each row. ``first`` is the first row of each group."""

    of: Int64
    first: Int64

    def __len__(self) -> int:
        return len(self.first)

    def count(self) -> Int64:
        return np.bincount(self.of, minlength=len(self)).astype(np.int64)

    def sum(self, values: Whole) -> Int64:
        """Returns the exact sum of each group."""
        return _sums(self.of, values, len(self))

    def sum_real(self, values: Float64) -> Float64:
        return np.bincount(self.of, weights=values, minlength=len(self)).astype(np.float64)

    def min(self, values: Int64) -> Int64:
        low = np.full(len(self), np.iinfo(np.int64).max)
        np.minimum.at(low, self.of, values)
        return low

    def max(self, values: Int64) -> Int64:
        high = np.full(len(self), np.iinfo(np.int64).min)
        np.maximum.at(high, self.of, values)
        return high

    def any(self, flags: Bool) -> Bool:
        return np.bincount(self.of[flags], minlength=len(self)) > 0

    def percentiles(self, values: Int64, *shares: float) -> list[Float64]:
        """Returns one array per share (0..1): that percentile of every group, interpolated like ``numpy.quantile``."""
        order = np.lexsort((values, self.of))
        ordered = values[order].astype(np.float64)
        count = self.count()
        start = np.cumsum(count) - count
        results = []
        for share in shares:
            place = (count - 1) * share
            low = np.floor(place).astype(np.int64)
            high = np.minimum(low + 1, count - 1)
            below, above = ordered[start + low], ordered[start + high]
            results.append(below + (above - below) * (place - low))
        return results


def group(*keys: Whole) -> Groups:
    """Groups rows that have equal keys. Group indices are in order of first appearance."""
    of, count = number_groups(keys[0])
    for key in keys[1:]:
        # Keys are numbered first, so that their product cannot overflow.
        other, distinct = number_groups(key)
        of, count = number_groups(of * distinct + other)
    return Groups(of, _firsts(of, count))


def group_sorted(*keys: Int64) -> Groups:
    """Groups rows that have equal keys. Group indices are in key order; the first key is the most significant."""
    of = _dense(codes(*keys) if len(keys) > 1 else keys[0])
    return Groups(of, _firsts(of, int(of.max(initial=-1)) + 1))


def number_groups(values: Whole) -> tuple[Int64, int]:
    """Returns the group index of each value, in order of first appearance, and the number of groups."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def codes(*keys: Int64) -> Int64:
    """Returns numbers below twice the row count, equal for equal keys, and in key order, possibly with gaps."""
    code, count, rows = np.zeros(len(keys[0]), np.int64), 1, len(keys[0])
    for key in keys:
        if rows and (key.min() < 0 or key.max() >= rows):
            key = _dense(key)
        size = int(key.max(initial=0)) + 1
        code, count = code * size + key, count * size
        if count > 2 * rows:
            code = _dense(code)
            count = int(code.max(initial=0)) + 1
    return code


def distinct_values(*columns: Int64) -> Int64:
    """Returns the distinct values that occur in any of the columns, sorted."""
    values = np.sort(np.concatenate(columns), kind="stable")  # np.unique does not use sorted runs
    first: Int64 = values[np.append(True, values[1:] > values[:-1])[: len(values)]]
    return first


def distinct_rows(*columns: Int64) -> tuple[Int64, ...]:
    """Returns the distinct rows, sorted by columns. ``numpy.unique`` along an axis is far slower."""
    first = group_sorted(*columns).first
    return tuple(column[first] for column in columns)


def places_of(chosen: Whole, count: int) -> Int32:
    """Returns the position in ``chosen`` of each of ``count`` rows; -1 = none, also as an additional last element."""
    places = np.full(count + 1, MISSING, np.int32)
    places[chosen] = np.arange(len(chosen), dtype=np.int32)
    return places


def occurrence(key: Int64) -> Int64:
    """Returns for each row the number of earlier rows that have the same key."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    fresh = np.diff(ordered, prepend=ordered[:1] - 1) != 0
    first = np.flatnonzero(fresh)
    found = np.empty(len(key), np.int64)
    found[order] = np.arange(len(key)) - np.repeat(first, np.diff(np.append(first, len(key))))
    return found


def sum_by(of: Whole, values: Int64, count: int) -> Int64:
    """Returns the exact sum of each group. Rows with group -1 are ignored."""
    known = of != MISSING
    return _sums(of[known], values[known], count)


def quantile_by(of: Int64, values: Int64, count: int, hundredths: int) -> Int64:
    """Returns a quantile (50: lower median) of each group, without interpolation; 0 for empty groups."""
    rows = np.bincount(of, minlength=count)
    found = np.zeros(count, np.int64)
    filled = rows > 0
    if filled.any():
        at = np.cumsum(rows) - rows + np.maximum(-(-rows * hundredths // 100), 1) - 1
        found[filled] = values[order_within(of, values)][at[filled]]
    return found


def median_by(of: Int64, values: Int64, count: int) -> Int64:
    """Returns the median of each group, the mean of two middle values; 0 for empty groups."""
    rows = np.bincount(of, minlength=count)
    found = np.zeros(count, np.int64)
    filled = rows > 0
    if filled.any():
        in_order = values[order_within(of, values)]
        first = (np.cumsum(rows) - rows)[filled]
        low, high = in_order[first + (rows[filled] - 1) // 2], in_order[first + rows[filled] // 2]
        found[filled] = low + (high - low) // 2
    return found


def stable_order(key: npt.NDArray[np.signedinteger]) -> Int64:
    """Returns the row indices that sort a key. The sort is stable."""
    small = len(key) and key.min() >= -_SMALL and key.max() < _SMALL
    # numpy uses a linear radix sort for 16-bit integers.
    order: Int64 = np.argsort(key.astype(np.int16) if small else key, kind="stable")
    return order


def order_within(of: Int64, values: Int64) -> Int64:
    """Returns the row indices sorted by group, then by value. The sort is not stable."""
    if not len(of):
        return np.empty(0, np.int64)
    low, high = int(values.min()), int(values.max())
    span = high - low + 1
    if span * (int(of.max()) + 1) < _FITS:
        return np.argsort(of * span + (values - low))  # one sort instead of two
    rows: Int64 = np.lexsort((values, of))
    return rows


def side_by_side(*columns: tuple[npt.NDArray[np.signedinteger], Int64]) -> list[Int64]:
    """Puts groups of times one after the other on one axis. Order within a group remains, distances may change."""
    low = min((int(time.min()) for _, time in columns if len(time)), default=0)
    width = max((int(time.max()) for _, time in columns if len(time)), default=0) - low + 1
    groups = max((int(of.max()) for of, _ in columns if len(of)), default=0) + 2
    if groups * width < _FITS:
        return [time - low + of.astype(np.int64) * width for of, time in columns]
    # The range of times is too large for one axis, so ranks replace times.
    values, rank = np.unique(np.concatenate([time for _, time in columns]), return_inverse=True)
    bounds = np.cumsum([len(time) for _, time in columns])[:-1]
    ranks = np.split(rank.ravel(), bounds)
    return [place + of.astype(np.int64) * len(values) for place, (of, _) in zip(ranks, columns, strict=True)]


def ratio(part: npt.NDArray[np.number], whole: npt.NDArray[np.number]) -> Float64:
    """Returns ``part / whole``; 0 where ``whole`` is 0."""
    shares: Float64 = np.divide(part, whole, out=np.zeros(len(part)), where=whole != 0)
    return shares


def shares(values: npt.NDArray[np.number]) -> Float64:
    """Returns each value divided by the sum of all values; 0 if the sum is 0."""
    return ratio(values, np.full(len(values), values.sum()))


def _sums(of: Whole, values: Whole, count: int) -> Int64:
    total = np.zeros(count, np.int64)
    np.add.at(total, of, values.astype(np.int64, copy=False))  # fast only for equal types
    return total


def _firsts(of: Int64, count: int) -> Int64:
    first = np.empty(count, np.int64)
    first[of[::-1]] = np.arange(len(of))[::-1]  # the last write wins: the first row of the group
    return first


def first_recorded(values: Int32, groups: Groups) -> Int64:
    """Returns the first value of each group that is not -1; -1 if a group has no such value."""
    first = np.full(len(groups), MISSING, np.int64)
    recorded = np.flatnonzero(values != MISSING)[::-1]
    first[groups.of[recorded]] = values[recorded]
    return first


def hash_numbers(values: Whole) -> UInt64:
    """Returns a 64-bit hash of each number (splitmix64). A sum of these hashes identifies the summed numbers."""
    x = values.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: UInt64 = x ^ (x >> np.uint64(31))
    return found


def sequence_hashes(token: Whole, begin: Int64) -> UInt64:
    """Returns a hash of each sequence ``token[begin[i]:begin[i + 1]]``. No sequence may be empty."""
    place = np.arange(len(token)) - np.repeat(begin[:-1], np.diff(begin))
    values = hash_numbers(hash_numbers(token).view(np.int64) ^ hash_numbers(place).view(np.int64))
    return np.add.reduceat(values, begin[:-1]) if len(values) else np.empty(0, np.uint64)


def _dense(column: Int64) -> Int64:
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, -1)
    if high - low >= _DENSE_RANGE_FACTOR * len(column):
        return np.unique(column, return_inverse=True)[1].astype(np.int64)
    present = np.zeros(high - low + 1, np.bool_)
    present[column - low] = True
    position: Int64 = np.cumsum(present, dtype=np.int64) - 1
    return position[column - low]
