"""Small numbers for values and rows: distinct values by hashing (n steps where sorting takes n log n), rows by place."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.model.trace.schema import MISSING

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


def numbered(values: npt.NDArray[np.integer]) -> tuple[Int64, int]:
    """Returns each value as the number of its kind, counted by first appearance, and how many kinds there are."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def distinct(*columns: Int64) -> Int64:
    """Returns the values of some columns, ascending, each once. Columns that ascend already are merely merged."""
    values = np.sort(np.concatenate(columns), kind="stable")  # unlike np.unique it makes use of sorted runs
    first: Int64 = values[np.append(True, values[1:] > values[:-1])[: len(values)]]
    return first


def firsts(of: Int64, count: int) -> Int64:
    """Returns where each of ``count`` numbers stands first in ``of``."""
    first = np.empty(count, np.int64)
    first[of[::-1]] = np.arange(len(of))[::-1]  # of several places the last that is written stays: the first one
    return first


def places_of(chosen: npt.NDArray[np.integer], count: int) -> Int32:
    """Returns for each of ``count`` rows its place among the chosen, -1 for the others; one more at the end is for -1."""
    places = np.full(count + 1, MISSING, np.int32)
    places[chosen] = np.arange(len(chosen), dtype=np.int32)
    return places
