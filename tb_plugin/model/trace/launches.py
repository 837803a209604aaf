"""Kernel launches of the thread that launches most kernels."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import hash_numbers
from tb_plugin.model.trace.rows import Rows
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind
from tb_plugin.model.trace.strings import StringTable

# Numbers in kernel names (tiles, splits) depend on sizes, which change between steps.
_VARYING = r"\d+"


class Launches(msgspec.Struct, frozen=True, eq=False):
    row: Int64
    start: Int64
    end: Int64
    token: Int64
    """Id of the kernel name without its digits. Launches whose kernel names differ only in digits have the same id."""
    count: Int64
    pause: Int64
    """CPU time between the previous launch and this one; 0 for the first launch."""
    last_end: int
    """End of the thread's last launch. Launches of copies and other device work are included."""


def launches_of(rows: Rows, launch: Int32, strings: StringTable, track: int | None = None) -> Launches | None:
    """Returns the kernel launches of a thread (None = the one with most); None if it launches no kernels."""
    kernels = rows.of(EventKind.KERNEL)
    kernels = kernels[launch[kernels] != MISSING]
    if not len(kernels):
        return None
    track = int(np.bincount(rows.track[launch[kernels]]).argmax()) if track is None else track
    kernels = kernels[rows.track[launch[kernels]] == track]
    if not len(kernels):
        return None
    by = launch[kernels].astype(np.int64)
    order = np.argsort(by, kind="stable")
    row, first, count = np.unique(by[order], return_index=True, return_counts=True)
    token = np.add.reduceat(hash_numbers(_names(rows.name[kernels[order]], strings)), first)
    start, end = rows.start[row], rows.end[row]
    pause = np.concatenate(([0], np.maximum(0, start[1:] - end[:-1])))
    every = launch[rows.of(*DEVICE_WORK)]
    every = every[every != MISSING]
    last_end = int(rows.end[every[rows.track[every] == track]].max())
    token = np.unique(token, return_inverse=True)[1].astype(np.int64)
    return Launches(row, start, end, token, count.astype(np.int64), pause, last_end)


def _names(names: Int32, strings: StringTable) -> Int64:
    used, which = np.unique(names, return_inverse=True)
    texts = pc.dictionary_encode(pc.fill_null(pc.replace_substring_regex(strings.take(used), _VARYING, "#"), ""))
    numbers: Int64 = texts.indices.to_numpy(zero_copy_only=False).astype(np.int64)[which]
    return numbers


def matching(texts: pa.Array, pattern: str) -> npt.NDArray[np.bool_]:
    """Returns, for each text, whether it contains a match of the pattern. An empty pattern matches nothing."""
    if not pattern:
        return np.zeros(len(texts), np.bool_)
    found: npt.NDArray[np.bool_] = pc.fill_null(pc.match_substring_regex(texts, pattern), False).to_numpy(
        zero_copy_only=False
    )
    return found
