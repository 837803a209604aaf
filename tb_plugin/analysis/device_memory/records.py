"""Allocator events by device, with allocations matched to releases."""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.allocator import HOST_TYPE, PRIVATE_TYPE, device_name, levels_of
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class Blocks(msgspec.Struct, frozen=True, eq=False):
    """Memory blocks of one device, sorted by first event.

    All columns are indices into the device's events; -1 = none.
    """

    allocation: Int64
    release: Int64
    bytes: Int64
    begin: Int64
    """The allocation. If it is missing, the previous event at the address; the block starts after it."""
    end: Int64
    """The release. If it is missing, the next event at the address; the block ends before it."""
    paired: Bool
    """Whether the events at the address are consistent; False without an address or if an event is missing."""

    def live(self, at: int) -> Bool:
        """Returns, for each block, whether it is allocated after event ``at``, as far as known.

        -1 = before the first event.
        """
        alive: Bool = (self.begin <= at) & ((self.end == MISSING) | (self.end > at))
        return alive

    def live_at(self, at: int) -> Bool:
        """Returns, for each block, whether its allocation is recorded and it is allocated after event ``at``."""
        # A block without an address may have been released, so it is not listed.
        told: Bool = self.live(at) & (self.allocation != MISSING) & (self.paired | (self.end != MISSING))
        return told


class Device(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Allocator events of one device, sorted by time. ``record`` contains their indices in ``trace.memory``."""

    name: str
    is_host: bool
    number: int
    """Device index in PyTorch (-1 = none)."""
    record: Int64
    time_ns: Int64
    bytes: Int64
    allocated: Int64
    """Bytes allocated after each event. Without recorded totals, the change since the first event."""
    reserved: Int64
    """Bytes reserved after each event (-1 = not recorded)."""
    has_totals: bool
    has_addresses: bool
    address: Int64
    allocator: str = ""
    """Name of the allocator in the profile; empty for PyTorch's own."""

    @cached_property
    def blocks(self) -> Blocks:
        """Returns the memory blocks of the device."""
        return pair(self.address, self.bytes)

    @property
    def before(self) -> int:
        """Returns the bytes allocated before the first event."""
        return int(self.allocated[0] - self.bytes[0]) if len(self.record) else 0

    def at(self, time_ns: int) -> int:
        """Returns the index of the last event at or before a time (-1 = none)."""
        return int(self.each_at(np.array([time_ns]))[0])

    def each_at(self, times_ns: Int64) -> Int64:
        """Returns the index of the last event at or before each time (-1 = none)."""
        return np.searchsorted(self.time_ns, times_ns, side="right").astype(np.int64) - 1

    def level(self, at: int) -> int:
        """Returns the bytes allocated after event ``at`` (-1: before the first event)."""
        return int(self.allocated[at]) if at >= 0 else self.before


def name_in(trace: TraceTable, kind: int, number: int) -> str:
    """Returns the name of a device in the trace, or else its name in ``torch.device``.

    ``kind`` is PyTorch's device type number. Devices of the private-use type take the vendor's name (``npu:0``).
    """
    meant = [device for device in trace.devices if device.ordinal == number and kind != HOST_TYPE]
    own = [device.id for device in meant if device.has_name]
    vendors = {device.vendor for device in meant if device.vendor and kind == PRIVATE_TYPE}
    return own[0] if own else f"{vendors.pop()}:{number}" if vendors else device_name(kind, number)


def devices_of(trace: TraceTable) -> list[Device]:
    """Returns the devices of PyTorch's allocator: accelerators by type and number, then the host."""
    return [device for device in allocators_of(trace) if not device.allocator]


def allocators_of(trace: TraceTable) -> list[Device]:
    """Returns one entry per device and allocator.

    PyTorch's allocator comes first: accelerators by type and number, then the host. Other allocators follow by
    name.
    """
    memory, stated = trace.memory, trace.reported_memory.allocator
    number = np.where(memory.device_type == HOST_TYPE, MISSING, memory.device_id).astype(np.int64)
    kind = memory.device_type.astype(np.int64)
    key = (kind << 32) + number + 1
    whose = stated if len(stated) else np.full(len(key), MISSING, np.int32)
    found = []
    for allocator in np.unique(whose).tolist():
        name = "" if allocator == MISSING else trace.strings[allocator]
        for value in np.unique(key[whose == allocator]).tolist():
            rows = np.flatnonzero((key == value) & (whose == allocator))
            found.append(_device(trace, rows, int(kind[rows[0]]), int(number[rows[0]]), name))
    return sorted(found, key=lambda device: (device.allocator, device.is_host))


def _device(trace: TraceTable, rows: Int64, kind: int, number: int, allocator: str) -> Device:
    memory = trace.memory
    size, total, address = memory.bytes[rows], memory.total_allocated[rows], memory.address[rows]
    return Device(
        name=f"{name_in(trace, kind, number)} {allocator}".rstrip(),
        is_host=kind == HOST_TYPE,
        number=number,
        record=rows,
        time_ns=memory.time_ns[rows],
        bytes=size,
        allocated=levels_of(total, size),
        reserved=memory.total_reserved[rows],
        has_totals=bool((total != MISSING).any()),
        has_addresses=bool(_has_address(address).any()),
        address=address,
        allocator=allocator,
    )


def _has_address(address: Int64) -> Bool:
    known: Bool = (address != 0) & (address != MISSING)
    return known


def pair(address: Int64, size: Int64) -> Blocks:
    """Matches releases to earlier allocations at the same address. Unmatched events become blocks of their own."""
    rows = np.flatnonzero(size)
    order = rows[np.argsort(address[rows], kind="stable")]
    known, grew = _has_address(address[order]), size[order] > 0
    same = (address[order][1:] == address[order][:-1]) & known[1:]
    before = np.concatenate(([MISSING], np.where(same, order[:-1], MISSING))) if len(order) else order
    after = np.concatenate((np.where(same, order[1:], MISSING), [MISSING])) if len(order) else order
    after_grew, before_grew = size[after] > 0, size[before] > 0  # meaningless without an address
    released = grew & (after != MISSING) & ~after_grew
    is_single = ~grew & ((before == MISSING) | ~before_grew)
    first = grew | is_single  # the event that represents its block
    allocation = np.where(grew, order, MISSING)[first]
    release = np.where(grew, np.where(released, after, MISSING), order)[first]
    begin = np.where(grew, order, before)[first]
    end = np.where(grew, after, order)[first]
    paired = (known & (released | (np.where(grew, after, before) == MISSING)))[first]
    by_time = np.argsort(order[first], kind="stable")
    return Blocks(
        allocation[by_time], release[by_time], np.abs(size[order[first]])[by_time], begin[by_time], end[by_time],
        paired[by_time],
    )  # fmt: skip


def memory_of(trace: TraceTable, device: Device) -> int | None:
    """Returns the memory size of the device in bytes; None for the host or if unknown."""
    if device.is_host:
        return None
    return next((known.memory_bytes for known in trace.devices if known.ordinal == device.number), None) or None
