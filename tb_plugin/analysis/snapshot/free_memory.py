"""Unused reserved memory of a device after an event."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.snapshot.device_levels import DeviceLevels
from tb_plugin.analysis.snapshot.moment import moment_at

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# Larger blocks are in large segments.
SMALL_BLOCK = 1 << 20


class Free(msgspec.Struct, frozen=True, eq=False):
    """Reserved segments, and the gaps between the blocks in them. An expandable segment counts as one segment."""

    size: Int64
    """Size of each segment in bytes."""
    free: Int64
    stream: Int64
    pool: Int64
    is_small: Bool
    gap: Int64
    """Size of each gap in bytes. ``gap_range`` contains the index of each gap's segment."""
    gap_range: Int64
    block: Int64
    """Indices of the device's blocks that are in segments.

    ``block_range`` contains the index of each block's segment.
    """
    block_range: Int64

    @property
    def is_pinned(self) -> Bool:
        """Returns, for each segment, whether it contains a block and therefore cannot be returned to the driver."""
        return self.free < self.size

    def largest(self, usable: Bool | None = None) -> int:
        """Returns the size of the largest gap.

        If ``usable`` is given, only gaps in the segments that this mask selects are considered.
        """
        gaps = self.gap if usable is None else self.gap[usable[self.gap_range]]
        return int(gaps.max(initial=0))


def free_of(device: DeviceLevels, event: int) -> Free:
    moment = moment_at(device, event)
    rows = moment.rows
    used = moment.by_row(moment.size, moment.row)
    gaps = moment.gaps
    return Free(
        rows.size,
        rows.size - used,
        rows.stream,
        rows.pool,
        ~rows.is_large,
        gaps.size,
        gaps.row,
        moment.block,
        moment.row,
    )
