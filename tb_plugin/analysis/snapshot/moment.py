"""Segments, blocks and gaps of a device after one event.

Segments are placed one after another in a virtual address space. *Position* p in segment r is byte ``p - first[r]``
of segment r.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.snapshot.device_levels import DeviceLevels
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import sum_by
from tb_plugin.model.trace.schema import MISSING

# Bytes of a segment of small blocks, and of a page of an expandable segment of small blocks.
SMALL_PAGE = 2 << 20
# Bytes of a page of an expandable segment of large blocks.
LARGE_PAGE = 20 << 20


class Rows(msgspec.Struct, frozen=True, eq=False):
    """Existing segments, sorted by address. Adjacent parts of the same expandable segment are merged."""

    address: Int64
    size: Int64
    stream: Int64
    pool: Int64
    is_large: Bool
    """Whether the segment is for large blocks, as recorded or by its size."""
    is_expandable: Bool
    stack: Int64
    pieces: Int64
    first: Int64
    """Position of the first byte of each segment. The last entry is the total size of all segments."""

    def __len__(self) -> int:
        return len(self.address)

    @property
    def page(self) -> Int64:
        """Returns the smallest unit of each segment that can be returned to the driver: the segment, or a page of it."""
        return np.where(self.is_expandable, np.where(self.is_large, LARGE_PAGE, SMALL_PAGE), np.maximum(self.size, 1))

    def of(self, position: Int64) -> Int64:
        found: Int64 = np.searchsorted(self.first, position, side="right") - 1
        return found

    def returnable(self, start: Int64, end: Int64, row: Int64) -> Int64:
        """Returns the bytes of each unused range that can be returned to the driver. ``row`` is its segment."""
        page = self.page[row]
        low, high = start - self.first[row], end - self.first[row]
        return np.maximum(high // page + -low // page, 0) * page


class Gaps(msgspec.Struct, frozen=True, eq=False):
    row: Int64
    start: Int64
    size: Int64


class Moment(msgspec.Struct, frozen=True, eq=False):
    """Memory of a device after one event. Blocks are sorted by position."""

    levels: DeviceLevels
    event: int
    rows: Rows
    block: Int64
    """Index of each block in the device's table of blocks."""
    row: Int64
    """Index of each block's segment in ``rows``."""
    start: Int64
    size: Int64
    is_pending: Bool
    """Whether the release of the block was requested, but a stream may still use it."""
    outside: Int64
    """Indices of existing blocks that are not in any segment."""
    gaps: Gaps

    @property
    def reserved(self) -> int:
        return int(self.rows.first[-1])

    @property
    def allocated(self) -> int:
        return int(self.size[~self.is_pending].sum())

    @property
    def pending(self) -> int:
        return int(self.size[self.is_pending].sum())

    @property
    def free(self) -> int:
        return int(self.gaps.size.sum())

    @property
    def largest_gap(self) -> int:
        return int(self.gaps.size.max(initial=0))

    def numbers(self, of: Int64, count: int) -> dict[str, Int64]:
        """Returns numbers about groups of segments, by metric. ``of`` is the group of each segment."""
        gaps, pending = self.gaps, self.is_pending
        block, gap = of[self.row], of[gaps.row]
        widest = np.zeros(count, np.int64)
        np.maximum.at(widest, gap, gaps.size)
        return {
            "segments_now": np.bincount(of, minlength=count),
            "segment_bytes": sum_by(of, self.rows.size, count),
            "allocated_now_bytes": sum_by(block[~pending], self.size[~pending], count),
            "pending_now_bytes": sum_by(block[pending], self.size[pending], count),
            "free_now_bytes": sum_by(gap, gaps.size, count),
            "widest_gap_bytes": widest,
            "stuck_bytes": sum_by(gap, stuck_of(self), count),
            "blocks_now": np.bincount(block, minlength=count),
            "gaps_now": np.bincount(gap, minlength=count),
        }


def moment_at(device: DeviceLevels, event: int) -> Moment:
    rows = _rows(device, event)
    live = device.live(event)
    address, size = device.block("address")[live].astype(np.int64), device.block("size")[live].astype(np.int64)
    row = np.searchsorted(rows.address, address, side="right") - 1
    inside = row >= 0
    inside[inside] = (address + size)[inside] <= (rows.address + rows.size)[row[inside]]
    outside = live[~inside]
    live, address, size, row = live[inside], address[inside], size[inside], row[inside]
    start = rows.first[row] + address - rows.address[row]
    order = np.argsort(start, kind="stable")
    live, size, row, start = live[order], size[order], row[order], start[order]
    is_pending = device.block("freed")[live] <= event
    return Moment(device, event, rows, live, row, start, size, is_pending, outside, _gaps(rows, start, size))


def _rows(device: DeviceLevels, event: int) -> Rows:
    live = np.flatnonzero((device.segment("begin") <= event) & (device.segment("end") > event))
    live = live[np.argsort(device.segment("address")[live], kind="stable")]
    names = ("address", "size", "stream", "pool", "is_large", "is_expandable", "stack")
    address, size, stream, pool, is_large, is_expandable, stack = (
        device.segment(name)[live].astype(np.int64) for name in names
    )
    fresh = np.ones(len(live), np.bool_)
    fresh[1:] = (
        (is_expandable[1:] != 1)
        | (is_expandable[:-1] != 1)
        | (address[1:] != (address + size)[:-1])
        | (stream[1:] != stream[:-1])
        | (pool[1:] != pool[:-1])
    )
    head = np.flatnonzero(fresh)
    total = np.add.reduceat(size, head) if len(head) else size
    expandable = is_expandable[head] == 1
    stated = np.maximum.reduceat(is_large, head) if len(head) else is_large
    by_size = np.where(expandable, total % LARGE_PAGE == 0, total != SMALL_PAGE)
    return Rows(
        address[head],
        total,
        stream[head],
        pool[head],
        np.where(stated == MISSING, by_size, stated == 1),
        expandable,
        stack[head],
        np.diff(np.append(head, len(live))),
        np.concatenate((np.zeros(1, np.int64), np.cumsum(total))),
    )


def _items(rows: Rows, start: Int64, size: Int64) -> tuple[Int64, Int64, Int64]:
    """Returns sorted starts and ends of blocks and segment boundaries, and the index of each block among them."""
    borders = len(rows.first)
    starts, ends = np.concatenate((rows.first, start)), np.concatenate((rows.first, start + size))
    order = np.argsort(starts, kind="stable")  # a segment boundary precedes the blocks that start there
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return starts[order], ends[order], place[borders:]


def _gaps(rows: Rows, start: Int64, size: Int64) -> Gaps:
    starts, ends, _ = _items(rows, start, size)
    reach = np.maximum.accumulate(ends)[:-1]
    free = starts[1:] - reach
    row = rows.of(reach)
    # Invalid sizes may overflow, so ranges outside all segments are ignored.
    found = np.flatnonzero((free > 0) & (row >= 0) & (row < len(rows)))
    return Gaps(row[found], reach[found], free[found])


def stuck_of(moment: Moment) -> Int64:
    """Returns the bytes of each gap that cannot be returned to the driver because of blocks in its segment or page."""
    gaps = moment.gaps
    return gaps.size - moment.rows.returnable(gaps.start, gaps.start + gaps.size, gaps.row)


def pinned_by(moment: Moment) -> Int64:
    """Returns the bytes that could be returned to the driver if each block were released."""
    rows, start, end, row = moment.rows, moment.start, moment.start + moment.size, moment.row
    starts, ends, place = _items(rows, start, moment.size)
    if not len(place):
        return start
    left = np.maximum.accumulate(ends)[place - 1]
    right = np.maximum(starts[np.minimum(place + 1, len(starts) - 1)], end)
    left = np.minimum(left, start)
    whole = rows.returnable(left, right, row)
    found: Int64 = whole - rows.returnable(left, start, row) - rows.returnable(end, right, row)
    return found


class Obstacles(msgspec.Struct, frozen=True, eq=False):
    """For each segment, the fewest bytes in adjacent blocks that would have to be released for a memory request."""

    row: Int64
    first: Int64
    """Index in ``Moment`` of the first block that would have to be released."""
    count: Int64
    live_bytes: Int64
    gap_start: Int64
    gap_bytes: Int64
    """Size of the gap that would result if these blocks were released, in bytes."""


def obstacles_to(moment: Moment, requested: int, chosen: Bool) -> Obstacles:
    """Returns the obstacles in the segments of the mask ``chosen`` that are large enough, fewest bytes first."""
    rows = moment.rows
    starts, ends, place = _items(rows, moment.start, moment.size)
    size = np.zeros(len(starts), np.int64)
    size[place] = moment.size
    number = np.full(len(starts), MISSING, np.int64)
    number[place] = np.arange(len(place))
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(size)))
    left = np.maximum.accumulate(ends)
    right = np.searchsorted(starts, left + max(requested, 1))
    row = rows.of(left)
    # A range that ends with its segment: the next boundary is the start of the next segment.
    ends_row = np.append((number[1:] == MISSING) & (starts[1:] == left[:-1]), True)
    fits = (right < len(starts)) & (row < len(rows)) & ~ends_row
    fits[fits] = chosen[row[fits]] & (starts[right[fits]] <= rows.first[row[fits] + 1])
    at = np.flatnonzero(fits)
    right, row = right[at], row[at]
    live = before[right] - before[at + 1]
    order = np.lexsort((at, live, row))
    order = order[np.diff(row[order], prepend=-1) != 0]
    order = order[np.argsort(live[order], kind="stable")]
    at, right = at[order], right[order]
    # Only blocks are in between, because the next boundary is the end of the segment.
    return Obstacles(
        row[order],
        number[np.minimum(at + 1, len(number) - 1)],
        right - at - 1,
        live[order],
        left[at],
        starts[right] - left[at],
    )
