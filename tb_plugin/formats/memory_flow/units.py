"""Sizes and times in MegEngine's notation: "1MB 23KB 5B ", "11ms 889us "."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

SIZES = (("TB", 2**40), ("GB", 2**30), ("MB", 2**20), ("KB", 2**10), ("B", 1))
TIMES = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
MOST = 2**62  # larger numbers are invalid


def numbers_of(texts: pa.Array, units: tuple[tuple[str, int], ...]) -> tuple[Int64, Bool]:
    """Returns the numbers and which texts were readable; missing and empty texts are readable zeros."""
    pattern = "^ *" + "".join(rf"(?:(?P<{unit}>[0-9]{{1,18}}){unit} *)?" for unit, _ in units) + "$"
    texts = pc.fill_null(texts, "")
    found = pc.extract_regex(texts, pattern)
    known = found.is_valid().to_numpy(zero_copy_only=False)
    total = np.zeros(len(texts), np.int64)
    size = np.zeros(len(texts))
    for unit, factor in units:
        part = pc.fill_null(found.field(unit), "")
        value = pc.if_else(pc.equal(part, ""), "0", part).cast(pa.int64()).to_numpy()
        size += value.astype(np.float64) * factor
        total += np.where(value <= MOST // factor, value, 0) * factor
    return np.where(size < MOST, total, 0), known & (size < MOST)


def addresses_of(texts: pa.Array) -> tuple[Int64, Bool]:
    """Returns hexadecimal numbers below 2**62, and which texts are such numbers."""
    known = pc.fill_null(pc.match_substring_regex(texts, "^0x[0-9a-fA-F]{1,16}$"), False).to_numpy(zero_copy_only=False)
    low = np.array([int(text, 16) if ok else 0 for text, ok in zip(texts.to_pylist(), known, strict=True)], np.uint64)
    known &= low < MOST
    return np.where(known, low, 0).astype(np.int64), known
