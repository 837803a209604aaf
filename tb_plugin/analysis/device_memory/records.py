"""Allocator events by device. Each allocation is matched to its release."""

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

    The columns contain indices into the device's events; -1 = none.
    """

    allocation: Int64
    release: Int64
    bytes: Int64
    begin: Int64
    """Index of the event that allocated the block.

    If this event is missing, index of the previous event at the same address; the block then starts later than this
    event.
    """
    end: Int64
    """Index of the event that released the block.

    If this event is missing, index of the next event at the same address; the block then ends earlier than this
    event.
    """
    paired: Bool
    """Whether the events at the block's address are consistent. False if there is no address or an event is missing."""

    def live(self, at: int) -> Bool:
        """Returns whether each block is known to be allocated after event ``at`` (-1 = before the first event)."""
        alive: Bool = (self.begin <= at) & ((self.end == MISSING) | (self.end > at))
        return alive

    def live_at(self, at: int) -> Bool:
        """Returns, for each block, whether it is certainly allocated after event ``at``.

        This requires that its allocation is recorded.
        """
        # A block without an address may have been released, so it is not listed.
        told: Bool = self.live(at) & (self.allocation != MISSING) & (self.paired | (self.end != MISSING))
        return told


class Device(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Allocator events of one device, sorted by time.

    ``record`` contains the index of each event in ``trace.memory``.
    """

    name: str
    is_host: bool
    number: int
    """Device index in PyTorch (-1 = none)."""
    record: Int64
    time_ns: Int64
    bytes: Int64
    allocated: Int64
    """Number of bytes that are allocated after each event.

    If totals are not recorded, the change since the first event.
    """
    reserved: Int64
    """Number of bytes that are reserved after each event (-1 = not recorded)."""
    has_totals: bool
    has_addresses: bool
    address: Int64
    allocator: str = ""
    """Name of the allocator in the profile; empty for PyTorch's allocator."""

    @cached_property
    def blocks(self) -> Blocks:
        return pair(self.address, self.bytes)

    @property
    def before(self) -> int:
        """Returns the number of bytes that were allocated before the first event."""
        return int(self.allocated[0] - self.bytes[0]) if len(self.record) else 0

    def at(self, time_ns: int) -> int:
        """Returns the index of the last event at or before a time (-1 = none)."""
        return int(self.each_at(np.array([time_ns]))[0])

    def each_at(self, times_ns: Int64) -> Int64:
        """Returns the index of the last event at or before each time (-1 = none)."""
        return np.searchsorted(self.time_ns, times_ns, side="right").astype(np.int64) - 1

    def level(self, at: int) -> int:
        """Returns the number of bytes that are allocated after event ``at``. -1 = before the first event."""
        return int(self.allocated[at]) if at >= 0 else self.before


def name_in(trace: TraceTable, kind: int, number: int) -> str:
    """Returns the name that the trace gives a device. If the trace has none, returns the name in the format of
    ``torch.device``.

    ``kind`` is PyTorch's number of the device type. For a device of the private-use type, the vendor's name is used
    (``npu:0``).
    """
    meant = [device for device in trace.devices if device.ordinal == number and kind != HOST_TYPE]
    own = [device.id for device in meant if device.has_name]
    vendors = {device.vendor for device in meant if device.vendor and kind == PRIVATE_TYPE}
    return own[0] if own else f"{vendors.pop()}:{number}" if vendors else device_name(kind, number)


def devices_of(trace: TraceTable) -> list[Device]:
    """Returns the devices that use PyTorch's allocator.

    Accelerators come first, sorted by type and number. The host is last.
    """
    return [device for device in allocators_of(trace) if not device.allocator]


def allocators_of(trace: TraceTable) -> list[Device]:
    """Returns one entry for each pair of device and allocator.

    Entries for PyTorch's allocator come first: accelerators by type and number, then the host. Entries for other
    allocators follow, sorted by name.
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
    """Matches each release to the last allocation at the same address. An unmatched event becomes a separate block."""
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
    """Returns the memory size of a device in bytes. None for the host, or if the size is unknown."""
    if device.is_host:
        return None
    return next((known.memory_bytes for known in trace.devices if known.ordinal == device.number), None) or None
