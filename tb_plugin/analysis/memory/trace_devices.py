"""Allocator events of a trace, by device."""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np

from tb_plugin.analysis.allocator import HOST_TYPE, PRIVATE_TYPE, device_name, levels_of
from tb_plugin.analysis.memory.blocks import Blocks, blocks_of_trace
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.snapshot.block_lives import has_address
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable


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
    """Bytes allocated after each event; without recorded totals, the change since the first event."""
    reserved: Int64
    """Number of bytes that are reserved after each event (-1 = not recorded)."""
    has_totals: bool
    has_addresses: bool
    address: Int64
    allocator: str = ""
    """Name of the allocator in the profile; empty for PyTorch's allocator."""

    @cached_property
    def blocks(self) -> Blocks:
        return blocks_of_trace(self.address, self.bytes)

    @property
    def before(self) -> int:
        return int(self.allocated[0] - self.bytes[0]) if len(self.record) else 0

    def at(self, time_ns: int) -> int:
        return int(self.each_at(np.array([time_ns]))[0])

    def each_at(self, times_ns: Int64) -> Int64:
        """Returns the index of the last event at or before each time (-1 = none)."""
        return np.searchsorted(self.time_ns, times_ns, side="right").astype(np.int64) - 1

    def level(self, at: int) -> int:
        """Returns the number of bytes that are allocated after event ``at``. -1 = before the first event."""
        return int(self.allocated[at]) if at >= 0 else self.before


def name_in(trace: TraceTable, kind: int, number: int) -> str:
    """Returns the name that the trace gives a device, else its vendor's name (``npu:0``) or that of ``torch.device``."""
    meant = [device for device in trace.devices if device.ordinal == number and kind != HOST_TYPE]
    own = [device.id for device in meant if device.has_name]
    vendors = {device.vendor for device in meant if device.vendor and kind == PRIVATE_TYPE}
    return own[0] if own else f"{vendors.pop()}:{number}" if vendors else device_name(kind, number)


def devices_of(trace: TraceTable) -> list[Device]:
    """Returns the devices that use PyTorch's allocator: accelerators by type and number, then the host."""
    return [device for device in allocators_of(trace) if not device.allocator]


def allocators_of(trace: TraceTable) -> list[Device]:
    """Returns each pair of device and allocator. Those of PyTorch's allocator come first, as in ``devices_of``."""
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
        has_addresses=bool(has_address(address).any()),
        address=address,
        allocator=allocator,
    )


def memory_of(trace: TraceTable, device: Device) -> int | None:
    """Returns the memory size of a device in bytes. None for the host, or if the size is unknown."""
    if device.is_host:
        return None
    return next((known.memory_bytes for known in trace.devices if known.ordinal == device.number), None) or None
