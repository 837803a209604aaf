"""Distinct values as small numbers: by hashing, so n steps where sorting takes n log n."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64 = npt.NDArray[np.int64]


def numbered(values: npt.NDArray[np.integer]) -> tuple[Int64, int]:
    """Each value as the number of its kind, counted by first appearance, and how many kinds there are."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def firsts(of: Int64, count: int) -> Int64:
    """Where each of ``count`` numbers stands first in ``of``."""
    first = np.empty(count, np.int64)
    first[of[::-1]] = np.arange(len(of))[::-1]  # of several places the last that is written stays: the first one
    return first
