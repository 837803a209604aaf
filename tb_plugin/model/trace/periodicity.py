"""Repetition in number sequences: periods, occurrences and outliers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.arrays import Bool, Int64, UInt64
from tb_plugin.lib.groupby import hash_numbers

# Only this many numbers at the end are searched for a period.
SEARCHED = 1 << 17
# Number of distances to keep per word length.
COMMONEST = 4
# The largest pause stands out if it is at least this many times the second.
STANDS_OUT = 2
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)


class Words:
    """Hashes of parts of a sequence. Equal parts have equal hashes."""

    def __init__(self, sequence: Int64) -> None:
        self._ranks = np.unique(sequence, return_inverse=True)[1]
        values = hash_numbers(self._ranks)
        self._power = _powers(_BASE, len(sequence))
        self._inverse = _powers(_INVERSE, len(sequence))
        self._sum = np.concatenate((np.zeros(1, np.uint64), np.cumsum(values * self._power[:-1], dtype=np.uint64)))

    def of(self, begin: Int64, end: Int64) -> UInt64:
        """Returns the hashes of the parts of the sequence from ``begin`` to ``end`` (exclusive)."""
        found: UInt64 = (self._sum[end] - self._sum[begin]) * self._inverse[begin]
        return found

    def places(self, begin: int, length: int) -> Int64:
        """Returns all positions of parts equal to ``[begin, begin + length)``. They may overlap."""
        every = np.arange(max(0, len(self._ranks) - length + 1))
        same: Bool = self.of(every, every + length) == self.of(np.array([begin]), np.array([begin + length]))
        return every[same]


def _powers(base: int, count: int) -> UInt64:
    factors = np.full(count + 1, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


def likely_periods(sequence: Int64, repeats: int) -> list[int]:
    """Returns likely periods, ascending: common distances between equal parts of 1, 2, 4, ... numbers."""
    rank, length, found = np.unique(sequence, return_inverse=True)[1].astype(np.int64), 1, set()
    while length * repeats <= len(sequence):
        order = np.argsort(rank, kind="stable")
        distance = np.diff(order)[rank[order[1:]] == rank[order[:-1]]]
        if not len(distance):
            break
        often = np.bincount(distance)
        found.update(np.argsort(-often, kind="stable")[: min(COMMONEST, np.count_nonzero(often))].tolist())
        rank = np.unique(rank[:-length] * (len(rank) + 1) + rank[length:], return_inverse=True)[1].astype(np.int64)
        length *= 2
    return sorted(found)


def periodic_runs(sequence: Int64, period: int) -> tuple[Int64, Int64]:
    """Returns start and length of each section in which every number repeats one period later."""
    same = np.concatenate(([False], sequence[period:] == sequence[:-period], [False])).astype(np.int8)
    edge = np.diff(same)
    begin = np.flatnonzero(edge == 1)
    return begin, np.flatnonzero(edge == -1) - begin


def root(word: Int64) -> int:
    """Returns the length of the shortest part that, when repeated, gives the whole ``word``."""
    for length in range(1, len(word) // 2 + 1):
        if len(word) % length == 0 and (word[length:] == word[:-length]).all():
            return length
    return len(word)


def standing_out(pauses: npt.NDArray[np.float64]) -> tuple[int, float]:
    """Returns the index of the longest pause (-1 unless twice the second), and the second longest pause."""
    at = int(pauses.argmax())
    second = float(np.delete(pauses, at).max(initial=0))
    return (at if pauses[at] > 0 and pauses[at] >= STANDS_OUT * second else -1), second
