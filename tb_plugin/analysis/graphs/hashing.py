"""Hashes of integer sequences and of their subsequences."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
UInt64 = npt.NDArray[np.uint64]

# Odd, so that division modulo 2**64 is possible.
_BASE = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(0x9E3779B97F4A7C15, -1, 1 << 64))


def hash_numbers(values: npt.NDArray[np.integer]) -> UInt64:
    """Returns a 64-bit hash of each number (splitmix64)."""
    x = values.astype(np.int64).view(np.uint64) + _BASE
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: UInt64 = x ^ (x >> np.uint64(31))
    return found


def sequence_hashes(token: npt.NDArray[np.integer], begin: Int64) -> UInt64:
    """Returns a hash of each sequence ``token[begin[i]:begin[i + 1]]``. Sequences must not be empty."""
    place = np.arange(len(token)) - np.repeat(begin[:-1], np.diff(begin))
    values = hash_numbers(hash_numbers(token).view(np.int64) ^ hash_numbers(place).view(np.int64))
    return np.add.reduceat(values, begin[:-1]) if len(values) else np.empty(0, np.uint64)


class Rolling:
    """Rolling hash: hashes any subsequence in constant time. Equal subsequences have equal hashes."""

    def __init__(self, token: npt.NDArray[np.integer]) -> None:
        values = hash_numbers(token)
        self._back = _powers(_INVERSE, len(values) + 1)
        self._sums = np.append(np.uint64(0), np.cumsum(values * _powers(_BASE, len(values)), dtype=np.uint64))

    def at(self, start: Int64, length: int) -> UInt64:
        """Returns the hashes of the subsequences ``[start, start + length)``."""
        found: UInt64 = (self._sums[start + length] - self._sums[start]) * self._back[start]
        return found


def _powers(base: np.uint64, count: int) -> UInt64:
    factors = np.full(count, base, np.uint64)
    factors[:1] = 1
    powers: UInt64 = np.cumprod(factors, dtype=np.uint64)
    return powers
