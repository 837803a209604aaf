"""Sums over groups of rows, vectorised: what a table of operators and one of kernels have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.tree import segments

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Groups:
    """n rows in k groups: ``of`` names the group of each row, ``first`` a row of each group (the first)."""

    of: Int64
    first: Int64

    def __len__(self) -> int:
        return len(self.first)

    def count(self) -> Int64:
        """Rows in each group."""
        return np.bincount(self.of, minlength=len(self)).astype(np.int64)

    def sum(self, values: npt.NDArray[np.integer]) -> Int64:
        """Exact integer sums (int64)."""
        total = np.zeros(len(self), np.int64)
        np.add.at(total, self.of, values)
        return total

    def sum_real(self, values: Float64) -> Float64:
        """Sums of real numbers."""
        return np.bincount(self.of, weights=values, minlength=len(self)).astype(np.float64)

    def min(self, values: Int64) -> Int64:
        """Smallest value of each group."""
        low = np.full(len(self), np.iinfo(np.int64).max)
        np.minimum.at(low, self.of, values)
        return low

    def max(self, values: Int64) -> Int64:
        """Largest value of each group."""
        high = np.full(len(self), np.iinfo(np.int64).min)
        np.maximum.at(high, self.of, values)
        return high

    def any(self, flags: Bool) -> Bool:
        """Whether any row of the group has the flag."""
        return np.bincount(self.of[flags], minlength=len(self)) > 0

    def percentiles(self, values: Int64, *shares: float) -> list[Float64]:
        """Percentiles (0..1) of each group with linear interpolation between neighbours, like numpy's default."""
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


def group(*keys: npt.NDArray[np.integer]) -> Groups:
    """Groups of rows that agree in all keys, numbered by the first row's position. By hashing: n, not n log n."""
    of, count = _numbered(keys[0])
    for key in keys[1:]:
        # One small number per key and row, then one number for the row: no key may overflow the product.
        other, distinct = _numbered(key)
        of, count = _numbered(of * distinct + other)
    first = np.empty(count, np.int64)
    first[of[::-1]] = np.arange(len(of))[::-1]  # of several rows the last that is written stays: the first one
    return Groups(of, first)


def _numbered(values: npt.NDArray[np.integer]) -> tuple[Int64, int]:
    """Distinct values as numbers in order of their first appearance, and how many there are."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def ratio(part: npt.NDArray[np.number], whole: npt.NDArray[np.number]) -> Float64:
    """``part / whole``, 0 where ``whole`` is 0."""
    shares: Float64 = np.divide(part, whole, out=np.zeros(len(part)), where=whole != 0)
    return shares


def subtree_sums(own: Int64, parent: Int32) -> Int64:
    """Own value plus those of all descendants. ``parent`` -1 = root; parents stand before their children."""
    total = own.copy()
    for rows in reversed(levels(parent)[1:]):
        np.add.at(total, parent[rows], total[rows])
    return total


def levels(parent: Int32) -> list[Int64]:
    """Positions by distance from their root. Pointer doubling: n log depth."""
    depth = (parent != MISSING).astype(np.int64)
    hop = parent.copy()
    while (rows := np.flatnonzero(hop != MISSING)).size:
        depth[rows] += depth[hop[rows]]
        hop[rows] = hop[hop[rows]]
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.searchsorted(depth[order], np.arange(1, depth.max(initial=0) + 1)))


@dataclass(frozen=True, eq=False)
class Spans:
    """Where n rows lie: track, start and end in nanoseconds; sorted by start, longest first."""

    track: Int32
    start: Int64
    end: Int64


_FITS = 2**62


def outermost(key: npt.NDArray[np.integer], spans: Spans) -> Bool:
    """Rows that no earlier row of the same key and track encloses: the calls that totals count."""
    if not len(key):
        return np.ones(0, np.bool_)
    order, bounds = segments(group(key, spans.track).of.astype(np.int32))
    # The furthest end so far, group by group: an offset keeps the groups apart in one running maximum.
    low = int(spans.start.min())
    width = int(spans.end.max()) - low + 2
    ends, after_start = spans.end[order] - low, spans.start[order] - low + 1
    if (len(bounds) - 1) * width >= _FITS:  # times of centuries: their ranks stand for them
        values, ends = np.unique(ends, return_inverse=True)
        after_start, width = np.searchsorted(values, after_start), len(values) + 1
    base = np.repeat(np.arange(len(bounds) - 1) * width, np.diff(bounds))
    reach = np.maximum.accumulate(base + ends + 1)
    furthest = np.concatenate(([0], reach[:-1])) - base - 1  # negative: the first of its group
    first: Bool = np.empty(len(key), np.bool_)
    first[order] = (furthest < 0) | (furthest < ends) | (furthest < after_start)
    return first
