"""SQL tables of allocator events and blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import Struct

from tb_plugin.analysis.memory.owners import Owners, owners_of
from tb_plugin.analysis.memory.trace_devices import Device, allocators_of
from tb_plugin.analysis.snapshot.block_tables import block_table, events_of
from tb_plugin.analysis.snapshot.device_levels import devices_of
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.sql.columns import SqlColumn, SqlTable, coded, nullable

C = SqlColumn


class _TraceEvents(Struct, frozen=True, eq=False):
    trace: TraceTable
    devices: list[Device]
    owners: Owners

    @property
    def every(self) -> Int64:
        return np.arange(len(self.trace.memory.time_ns))

    def texts(self, of: Callable[[Device], str]) -> pa.Array:
        """Returns a text of the device of each event."""
        place = np.full(len(self.every), MISSING, np.int32)
        for number, device in enumerate(self.devices):
            place[device.record] = number
        return coded(place, [of(device) for device in self.devices])


Source: TypeAlias = Any  # _TraceEvents, or the table of a snapshot


def _memory_events(model: object) -> Source | None:
    if isinstance(model, TraceTable):
        return _TraceEvents(model, allocators_of(model), owners_of(model))
    return events_of(model, "").combine_chunks() if isinstance(model, Snapshot) else None


def _addresses(values: Int64) -> pa.Array:
    """Returns addresses as the tables of snapshots do. 0 = unknown."""
    groups = group(values)
    texts = [f"{value & 0xFFFF_FFFF_FFFF_FFFF:#x}" for value in values[groups.first].tolist()]
    return coded(np.where(values == 0, MISSING, groups.of), texts)


def _either(
    key: str, of_trace: Callable[[_TraceEvents], pa.Array] | None = None
) -> Callable[[Source], pa.Array | None]:
    """Returns the column ``key`` of a snapshot ("" = none), or that of a trace."""

    def values(source: Source) -> pa.Array | None:
        if isinstance(source, _TraceEvents):
            return None if of_trace is None else of_trace(source)
        return _column(source, key) if key else None

    return values


def _column(table: pa.Table, key: str) -> pa.Array:
    column = table[key].combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


MEMORY_EVENTS: SqlTable[Source] = SqlTable(
    "memory_events",
    "allocation or release, of a trace or snapshot",
    _memory_events,
    (
        C("device", "", "device", _either("device", lambda at: at.texts(lambda device: device.name))),
        C(
            "allocator",
            "",
            "allocator, null for that of PyTorch; traces only",
            _either("", lambda at: at.texts(lambda device: device.allocator).cast(pa.large_string())),
        ),
        C("event", "", "number of the event on its device; snapshots only", _either("event_number")),
        C("action", "", "alloc, free_completed, ...; snapshots only", _either("memory_action")),
        C("time_ns", "ns", "time", _either("event_ns", lambda at: pa.array(at.trace.memory.time_ns))),
        C(
            "bytes",
            "bytes",
            "size; negative for a release in a trace",
            _either("block_size_bytes", lambda at: pa.array(at.trace.memory.bytes)),
        ),
        C("address", "", "address", _either("address", lambda at: _addresses(at.trace.memory.address))),
        C(
            "allocated_bytes",
            "bytes",
            "allocated memory after the event; traces only",
            _either("", lambda at: nullable(at.trace.memory.total_allocated)),
        ),
        C(
            "reserved_bytes",
            "bytes",
            "reserved memory after the event; traces only",
            _either("", lambda at: nullable(at.trace.memory.total_reserved)),
        ),
        C(
            "operator",
            "",
            "enclosing operator; traces only",
            _either("", lambda at: coded(at.owners.names(at.trace, at.every), at.trace.strings.array)),
        ),
        C(
            "outermost_operator",
            "",
            "outermost enclosing operator; traces only",
            _either("", lambda at: coded(at.owners.outermost(at.trace, at.every), at.trace.strings.array)),
        ),
        C("stream", "", "stream; snapshots only", _either("stream_name")),
        C("code_line", "", "innermost line of your code; snapshots only", _either("allocation_line")),
        C("stack", "", "call stack; snapshots only", _either("allocation_stack")),
    ),
)


def _blocks(model: object) -> pa.Table | None:
    if not isinstance(model, Snapshot):
        return None
    parts = []
    for device in devices_of(model):
        table = block_table(device, np.arange(len(device.block("begin"))))
        parts.append(table.append_column("device", pa.repeat(device.name, len(table))))
    return pa.concat_tables(parts).combine_chunks() if parts else None


def _of(key: str) -> Callable[[pa.Table], pa.Array]:
    return lambda table: _column(table, key)


BLOCKS: SqlTable[pa.Table] = SqlTable(
    "blocks",
    "memory block of a snapshot",
    _blocks,
    (
        C("device", "", "device", _of("device")),
        C("bytes", "bytes", "size", _of("block_size_bytes")),
        C("requested_bytes", "bytes", "requested size", _of("requested_bytes")),
        C("address", "", "address", _of("address")),
        C("category", "", "parameters, gradients, activations, ...", _of("memory_category")),
        C("module", "", "module that allocated the block", _of("block_module")),
        C("first_event", "", "event that allocated the block", _of("begin_event")),
        C("last_event", "", "event that released the block", _of("end_event")),
        C("start_ns", "ns", "time of the allocation", _of("begin_ns")),
        C("end_ns", "ns", "time of the release", _of("end_ns")),
        C("stream", "", "stream", _of("stream_name")),
        C("code_line", "", "innermost line of your code", _of("allocation_line")),
        C("stack", "", "call stack", _of("allocation_stack")),
    ),
)
