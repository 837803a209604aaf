"""An allocator that does everything at random: streams, private pools, deferred frees, expandable segments that grow, lose
pages in the middle and get them back. What it writes down is what PyTorch would; see samples/synthetic_memory.py."""

from __future__ import annotations

import contextlib
from typing import Any

from tests.synthetic_memory import generator

MIB: int = generator.MIB
EXPANDABLE = 9
"""The stream whose segments are expandable."""
SPACE = 1 << 38
POOLS = ((0, 0), (0, 0), (3, 1))


class WildAllocator(generator.Allocator):  # type: ignore[misc]
    """A WildAllocator tries everything that a recording may hold."""

    def __init__(self, seed: int, max_entries: int | None = None) -> None:
        super().__init__(900 * MIB, seed, max_entries=max_entries)
        self._spaces: dict[tuple[Any, ...], int] = {}

    def run(self, operations: int) -> dict[str, Any]:
        """Returns the snapshot after so many random operations."""
        rng, pending, held = self.random, [], []
        for i in range(operations):
            what = rng.random()
            if what < 0.5 or not held:
                size = rng.choice((rng.randint(1, 4000), rng.randint(4000, MIB), rng.randint(MIB, 30 * MIB)))
                if rng.random() < 0.01:
                    size = 2000 * MIB
                place = (rng.choice((0, 7, EXPANDABLE)), rng.choice(POOLS))
                with contextlib.suppress(generator.OutOfMemory):
                    held.append(self.allocate(size, generator.stack(("w.py", i % 7, "f")), *place))
            elif what < 0.85:
                address = held.pop(rng.randrange(len(held)))
                waits = rng.random() < 0.3
                self.free(address, wait=waits)
                if waits:
                    pending.append(address)
            elif what < 0.92 and pending:
                self.complete(pending.pop(rng.randrange(len(pending))))
            elif what < 0.94:
                self.empty_cache()
            else:
                self.unmap()
        found: dict[str, Any] = self.snapshot()
        return found

    def empty_cache(self) -> None:
        """Gives segments back that are no expandable ones."""
        kept = [one for one in self.segments if one.is_expandable]
        self.segments = [one for one in self.segments if not one.is_expandable]
        super().empty_cache()
        self.segments += kept

    def unmap(self) -> None:
        """Gives pages back that lie in a free block: all of them, or some in the middle."""
        for segment in [one for one in self.segments if one.is_expandable]:
            page = 2 * MIB if segment.is_small else 20 * MIB
            for block in list(segment.blocks):
                first, last = -(-block.address // page) * page, (block.address + block.size) // page * page
                if block.state == "inactive" and last > first:
                    low = first + self.random.randrange((last - first) // page) * page
                    self._cut(segment, block, low, self.random.choice((low + page, last)))
                    return

    def _cut(self, segment: Any, block: Any, low: int, high: int) -> None:
        self._event("segment_unmap", high - low, segment.frames, segment.stream, segment.pool, addr=low)
        at = segment.blocks.index(block)
        self.segments.remove(segment)
        left, right = segment.blocks[:at], segment.blocks[at + 1 :]
        if block.address < low:
            left.append(generator.Block(block.address, low - block.address))
        if high < block.address + block.size:
            right.insert(0, generator.Block(high, block.address + block.size - high))
        for blocks in (left, right):
            if blocks:
                self._add(segment.stream, segment.pool, segment.is_small, segment.frames, blocks)

    def _add(self, stream: int, pool: Any, is_small: bool, frames: Any, blocks: list[Any]) -> Any:
        size = sum(block.size for block in blocks)
        made = generator.Segment(blocks[0].address, size, stream, is_small, pool, frames, True, blocks)
        self.segments.append(made)
        for block in blocks:
            if block.address in self._live:
                self._live[block.address] = (made, block)
        return made

    def _grown(self, size: int, stream: int, pool: Any, frames: Any) -> Any:
        if stream != EXPANDABLE:
            return super()._grown(size, stream, pool, frames)
        is_small = size <= MIB
        page = 2 * MIB if is_small else 20 * MIB
        total = -(-size // page) * page
        if self.reserved + total > self.capacity:
            return None
        key = (stream, pool, is_small)
        base = self._spaces.setdefault(
            key, (0x600000000000 // page + 1) * page + len(self._spaces) * SPACE // page * page
        )
        mine = sorted(
            (one for one in self.segments if one.is_expandable and (one.stream, one.pool, one.is_small) == key),
            key=lambda one: one.address,
        )
        at = base
        for one in mine:  # the first hole that is large enough, else behind the last
            if one.address - at >= total:
                break
            at = one.address + one.size
        self._event("segment_map", total, frames, stream, pool, addr=at)
        blocks = [generator.Block(at, total)]
        for one in mine:
            if one.address + one.size == at or one.address == at + total:
                self.segments.remove(one)
                blocks += one.blocks
        blocks.sort(key=lambda block: block.address)
        for i in range(len(blocks) - 1, 0, -1):
            if blocks[i - 1].state == blocks[i].state == "inactive":
                blocks[i - 1].size += blocks.pop(i).size
        made = self._add(stream, pool, is_small, frames, blocks)
        return made, next(block for block in blocks if block.address <= at < block.address + block.size)
