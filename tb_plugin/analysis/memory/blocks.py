"""Memory blocks of one device, from a trace or from a snapshot."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.snapshot.block_lives import has_address, lives_in_trace
from tb_plugin.model.snapshot.table import NEVER, Snapshot
from tb_plugin.model.trace.schema import MISSING


class Blocks(msgspec.Struct, frozen=True, eq=False):
    """Memory blocks, sorted by first event.

    Times are numbers of the device's allocator events. A block is allocated after event e if ``begin <= e < freed``.
    """

    size: Int64
    begin: Int64
    """Event that allocated the block, or the earliest possible event; -1 = before the first event."""
    freed: Int64
    """Event that released the block, or the latest possible event; ``NEVER`` = not released."""
    allocation: Int64
    """Recorded event that allocated the block; -1 = not recorded."""
    release: Int64
    is_certain: Bool
    """Whether the events at the block's address agree. False if the address or an event is missing."""
    owner: Int64
    """Code that allocated the block: a stack of a snapshot, or an operator with its module and Python line."""

    def live(self, at: int) -> Bool:
        alive: Bool = (self.begin <= at) & (self.freed > at)
        return alive

    def live_at(self, at: int) -> Bool:
        """Returns whether each block is certainly allocated after event ``at``, by a recorded allocation."""
        # A block without an address may have been released, so it is not listed.
        alive: Bool = self.live(at) & (self.allocation != MISSING) & (self.is_certain | (self.freed != NEVER))
        return alive

    def take(self, rows: Int64) -> Blocks:
        return Blocks(*(getattr(self, name)[rows] for name in self.__struct_fields__))


def blocks_of_trace(address: Int64, size: Int64) -> Blocks:
    """Returns the blocks of a device's allocator events. ``size`` is negative for a release. Owners are unknown."""
    lives = lives_in_trace(address, size)
    event, begin, freed = (column.astype(np.int64) for column in (lives.event, lives.begin, lives.freed))
    grew = size[event] > 0
    is_released = (freed != NEVER) & (np.append(size, 0)[np.where(freed == NEVER, -1, freed)] < 0)
    agrees = np.where(grew, is_released | (freed == NEVER), begin == MISSING)
    return Blocks(
        size=np.abs(size[event]),
        begin=begin,
        freed=freed,
        allocation=np.where(grew, event, MISSING),
        release=np.where(is_released, freed, MISSING),
        is_certain=agrees & has_address(address[event]),
        owner=np.full(len(event), MISSING),
    )


def blocks_of_snapshot(snapshot: Snapshot, rows: slice) -> Blocks:
    """Returns the blocks in these rows of a snapshot, all of one device. A requested release frees a block."""
    blocks = snapshot.blocks
    begin, freed, stack = (column[rows].astype(np.int64) for column in (blocks.begin, blocks.freed, blocks.stack))
    release = np.where(freed == NEVER, MISSING, freed)
    return Blocks(blocks.size[rows], begin, freed, begin, release, np.ones(len(begin), np.bool_), stack)
