"""What of the reserved memory of a device is free at a moment: by range of addresses, and the gaps between blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.snapshot.held import Held
from tb_plugin.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

SMALL_SEGMENT = 2 << 20
"""Segments of this size hold blocks of up to 1 MiB, as PyTorch's allocator takes them; all others are larger."""
SMALL_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Free:
    """Reserved ranges by address (pieces of one expandable segment are one), and the gaps in them."""

    size: Int64
    """By range, as all that follows."""
    free: Int64
    stream: Int64
    pool: Int64
    is_small: Bool
    gap: Int64
    """Bytes of each gap."""
    gap_range: Int64
    """The range it lies in."""
    block: Int64
    """Rows of the device's blocks that lie in ranges."""
    block_range: Int64

    @property
    def is_pinned(self) -> Bool:
        """Returns the ranges that hold a block: they cannot be given back."""
        return self.free < self.size

    def largest(self, usable: Bool | None = None) -> int:
        """Returns the largest gap, of all ranges or of some."""
        gaps = self.gap if usable is None else self.gap[usable[self.gap_range]]
        return int(gaps.max(initial=0))


def free_of(held: Held, event: int) -> Free:
    """Returns what is free after an event."""
    rows = np.flatnonzero((held.segment("begin") <= event) & (held.segment("end") > event))
    rows = rows[np.argsort(held.segment("address")[rows], kind="stable")]
    start, size = held.segment("address")[rows], held.segment("size")[rows]
    stream, pool = held.segment("stream")[rows].astype(np.int64), held.segment("pool")[rows].astype(np.int64)
    stated, grows = held.segment("is_large")[rows], held.segment("is_expandable")[rows] == 1
    is_small = (stated == 0) | ((stated == MISSING) & (size == SMALL_SEGMENT))
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = ~(grows[1:] & grows[:-1] & (start[1:] == start[:-1] + size[:-1])
                   & (stream[1:] == stream[:-1]) & (pool[1:] == pool[:-1]))  # fmt: skip
    first = np.flatnonzero(begins)
    if not len(first):
        nothing = np.empty(0, np.int64)
        return Free(nothing, nothing, nothing, nothing, nothing > 0, *[nothing] * 4)
    low, total = start[first], np.add.reduceat(size, first)
    live = held.live(event)
    address = held.block("address")[live]
    order = np.argsort(address, kind="stable")
    live, address = live[order], address[order]
    of = np.searchsorted(low, address, side="right") - 1
    inside = (address != MISSING) & (of >= 0) & (address < (low + total)[of])
    live, address, of = live[inside], address[inside], of[inside]
    length = held.block("size")[live]
    # Every range ends with a block of nothing: a gap lies before each block.
    owner = np.concatenate((of, np.arange(len(first))))
    begin, end = np.concatenate((address, low + total)), np.concatenate((address + length, low + total))
    order = np.lexsort((begin, owner))
    owner, begin, end = owner[order], begin[order], end[order]
    before = np.where(np.diff(owner, prepend=-1) > 0, low[owner], np.roll(end, 1))
    gap = begin - before
    real = np.flatnonzero(gap > 0)
    used = np.bincount(of, length, len(first)).astype(np.int64)
    return Free(total, total - used, stream[first], pool[first], is_small[first], gap[real], owner[real], live, of)
