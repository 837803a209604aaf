"""Sums over groups of rows, vectorised: what a table of operators and one of kernels have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.trace.schema import MISSING

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
    """Groups of rows that agree in all keys, numbered by the first row's position."""
    if len(keys) == 1:
        _, first, of = np.unique(keys[0], return_index=True, return_inverse=True)
    else:
        # One small number per key and row, then one number for the row: no key may overflow the product.
        combined = np.zeros(len(keys[0]), np.int64)
        for key in keys:
            values, rank = np.unique(key, return_inverse=True)
            combined = np.unique(combined * len(values) + rank, return_inverse=True)[1]
        _, first, of = np.unique(combined, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return Groups(rank[of.ravel()], first[order])


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
    """Positions by distance from their root."""
    depth = np.zeros(len(parent), np.int64)
    hop = parent.copy()
    while True:
        rows = np.flatnonzero(hop != MISSING)
        if not len(rows):
            break
        depth[rows] += 1
        hop[rows] = parent[hop[rows]]
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.searchsorted(depth[order], np.arange(1, depth.max(initial=0) + 1)))


def outermost(key: npt.NDArray[np.integer], parent: Int32) -> Bool:
    """Rows without an ancestor of the same key: the calls that totals count."""
    nested = np.zeros(len(key), np.bool_)
    ancestor = parent.copy()
    while True:
        rows = np.flatnonzero((ancestor != MISSING) & ~nested)
        if not len(rows):
            return ~nested
        nested[rows] = key[ancestor[rows]] == key[rows]
        ancestor[rows] = parent[ancestor[rows]]


def sorted_table(columns: dict[str, object], by: Sequence[str]) -> pa.Table:
    """Columns as a table, sorted descending by ``by[0]`` (then ``by[1:]`` ascending)."""
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    keys = [(by[0], "descending"), *((key, "ascending") for key in by[1:])]
    return table.sort_by(keys)
