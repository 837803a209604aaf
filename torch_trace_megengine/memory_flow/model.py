"""Tensors as rectangles in a plane of address and time.

Two tensors may share memory, for example a view and its base.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.intervals import union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model_kinds.base import FileModel

# Maximum number of address ranges. If there are more, the smallest gaps stay on the axis.
MOST_REGIONS = 64
# Bytes. Smaller gaps between tensors stay on the axis.
LEAST_GAP = 2**20
# Gaps smaller than all used bytes divided by this stay on the axis.
GAP_SHARE = 64
# Maximum number of tensor parts for an exact count, which then takes about a gigabyte of memory.
MOST_PIECES = 8_000_000


class RawMemoryFlow(msgspec.Struct, frozen=True, eq=False):
    """Tensors in file order, as returned by a reader."""

    address: Int64
    size: Int64
    start_ns: Int64
    """Creation time, on the clock of the recording."""
    end_ns: Int64
    """Time when the tensor's memory was released; -1 if it was not released during the recording."""
    operator: Int64
    """Number of the operator that created the tensor; -1 if not reported."""
    name: Int32
    layout: Int32
    """String id of the tensor's shape, strides and type."""
    strings: StringTable
    report: ReadReport


class MemoryFlow(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Tensors sorted by creation time, and the address ranges that contain these tensors."""

    address: Int64
    size: Int64
    start_ns: Int64
    end_ns: Int64
    """Release time of each tensor. For a tensor that was not released, the end of the recording."""
    is_released: npt.NDArray[np.bool_]
    operator: Int64
    name: Int32
    layout: Int32
    region_address: Int64
    region_size: Int64
    region_offset: Int64
    """Start of each used range on the drawn address axis, on which large gaps are shortened."""
    strings: StringTable
    last_ns: int
    """Time of the last creation or release of a tensor."""
    report: ReadReport

    def __len__(self) -> int:
        return len(self.address)

    @property
    def first_ns(self) -> int:
        return int(self.start_ns[0]) if len(self) else 0

    @property
    def extent_bytes(self) -> int:
        """Returns the length of the drawn address axis, on which large gaps are shortened."""
        return int(self.region_offset[-1] + self.region_size[-1]) if len(self.region_size) else 0

    @property
    def offset(self) -> Int64:
        """Returns the start of each tensor on the drawn address axis, on which large gaps are shortened."""
        region = np.searchsorted(self.region_address, self.address, side="right") - 1
        return self.address - self.region_address[region] + self.region_offset[region]

    def alive_at(self, time_ns: int) -> Int64:
        """Returns the rows of the tensors that exist at a time, including tensors created exactly at that time."""
        began = int(np.searchsorted(self.start_ns, time_ns, side="right"))
        return np.flatnonzero(self.end_ns[:began] > time_ns)


class Levels(msgspec.Struct, frozen=True, eq=False):
    """Memory use over time. Each value is valid from its time until the time of the next value."""

    time_ns: Int64
    used: Int64
    """Bytes in use. Memory shared by several tensors is counted once."""
    tensors: Int64
    """Sum of the sizes of all live tensors, in bytes."""
    is_exact: bool
    """False if ``used`` is the sum of tensor sizes, because the exact value needs too much memory."""

    @property
    def peak(self) -> int:
        """Returns the index of the first highest level; -1 if there are none."""
        return int(self.used.argmax()) if len(self.used) else MISSING

    def at(self, time_ns: int) -> int:
        return int(np.searchsorted(self.time_ns, time_ns, side="right")) - 1


def assembled(raw: RawMemoryFlow) -> MemoryFlow:
    """Sorts the tensors by creation time, and determines the address ranges that contain tensors."""
    order = np.lexsort((raw.address, raw.start_ns))
    start, end, address, size = (part[order] for part in (raw.start_ns, raw.end_ns, raw.address, raw.size))
    is_released = end != MISSING
    last = max(int(start.max(initial=0)), int(end.max(initial=0)))
    regions = _regions(address, size)
    return MemoryFlow(
        address=address,
        size=size,
        start_ns=start,
        end_ns=np.where(is_released, end, last),
        is_released=is_released,
        operator=raw.operator[order],
        name=raw.name[order],
        layout=raw.layout[order],
        region_address=regions[0],
        region_size=regions[1],
        region_offset=regions[2],
        strings=raw.strings,
        last_ns=last,
        report=raw.report,
    )


def _regions(address: Int64, size: Int64) -> tuple[Int64, Int64, Int64]:
    used = union(address, address + size)
    if not len(used):
        none = np.empty(0, np.int64)
        return none, none, none
    total = int((used.end - used.start).sum())
    gap = used.start[1:] - used.end[:-1]
    wide = np.flatnonzero(gap > max(LEAST_GAP, total // GAP_SHARE))
    if len(wide) >= MOST_REGIONS:
        wide = np.sort(wide[np.argsort(-gap[wide], kind="stable")[: MOST_REGIONS - 1]])
    first = used.start[np.append(0, wide + 1)]
    length = used.end[np.append(wide, len(used) - 1)] - first
    strip = max(1, int(length.sum()) // 100)
    offset = np.cumsum(np.append(0, length[:-1] + strip))
    return first, length, offset


@cached_by_argument
def levels_of(flow: MemoryFlow) -> Levels:
    """Returns the memory use after each creation or release."""
    change = _changes(flow.start_ns, flow.end_ns, flow.size)
    pieces = _pieces(flow)
    used = change if pieces is None else _changes(*pieces)
    times, place = np.unique(np.concatenate((used[0], change[0])), return_inverse=True)
    place = place.reshape(-1)
    levels = []
    for part, at in ((used, place[: len(used[0])]), (change, place[len(used[0]) :])):
        total = np.zeros(len(times), np.int64)
        np.add.at(total, at, part[1])
        levels.append(np.cumsum(total))
    return Levels(times, levels[0], levels[1], pieces is not None)


def _changes(start: Int64, end: Int64, size: Int64) -> tuple[Int64, Int64]:
    return np.concatenate((start, end)), np.concatenate((size, -size))


def _pieces(flow: MemoryFlow) -> tuple[Int64, Int64, Int64] | None:
    """Returns the start, end and size of each period in which a piece of memory is in use. Returns None if there
    would be more than ``MOST_PIECES``.

    The memory is divided into pieces at each address where a tensor starts or ends. If several tensors use a piece
    at the same time, their times are merged into one period.
    """
    lived = flow.end_ns > flow.start_ns
    address, size = flow.address[lived], flow.size[lived]
    cuts = np.unique(np.concatenate((address, address + size)))
    first, last = np.searchsorted(cuts, address), np.searchsorted(cuts, address + size)
    count = last - first
    if int(count.sum()) > MOST_PIECES:
        return None
    of = np.repeat(np.arange(len(address)), count)
    cell = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count) + first[of]
    start, end = flow.start_ns[lived][of], flow.end_ns[lived][of]
    order = np.lexsort((start, cell))
    cell, start, end = cell[order], start[order], end[order]
    # Latest end so far in each cell. Cell and rank of the end form one increasing number.
    times, rank = np.unique(end, return_inverse=True)
    latest = np.maximum.accumulate(cell * len(times) + rank.reshape(-1)) % max(len(times), 1)
    begins = np.append(True, (cell[1:] != cell[:-1]) | (start[1:] > times[latest[:-1]]))[: len(cell)]
    at = np.flatnonzero(begins)
    until = times[latest[np.append(at[1:] - 1, len(cell) - 1)]] if len(at) else times
    return start[at], until, np.diff(cuts)[cell[at]] if len(at) else times


MEMORY_FLOW = FileModel(2, MemoryFlow, assembled)
