"""Profile-specific data: open columns, vendor tables, reported steps and blocks.

It is stored and shown unchanged; only analyses written for it use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.model.trace.schema import no_rows

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

# Key of the open column with output shapes: text as OperatorArgs.shapes.
RESULT_SHAPES = "Output Dims"

# Key of the open column of ranges without a recorded end: 1 for each. Their duration is unknown.
NEVER_ENDED = "never ended"

# Key of the open column with the number of the graph of device work.
GRAPH_ID = "graph id"
# Key of the open column with the node number: alone, or in the lower 32 bits below the graph number.
NODE_ID = "graph node id"
# Key of the open column with the program region in which replayed work was captured.
REGION = "name"
# Key of the open column that says whether such a region belongs to the backward pass.
REGION_PHASE = "autograd_phase"
# Its value for the backward pass.
BACKWARD_PHASE = "backward"
# Key of the open column with the same as JSON: a list of objects, outer regions first.
REGIONS = "annotation"
# Key of the open column with the kernel name of a launching call, next to GRID and BLOCK.
LAUNCHED = "kernel"
GRID, BLOCK = "grid", "block"

# Keys of the open columns of failed memory requests: requested bytes, and bytes in use and reserved then.
REQUESTED, ALLOCATED, RESERVED = "Bytes", "Total Allocated", "Total Reserved"
# Keys of the open columns with their device, as in MemoryEvents.
DEVICE_TYPE, DEVICE_NUMBER = "Device Type", "Device Id"

# Unit of vendor columns with clock times in whole nanoseconds.
SINCE_1970 = "ns since 1970"


@dataclass(frozen=True, eq=False)
class OpenColumn:
    """A property of some rows under the profile's own name, unchanged."""

    key: str
    """The name in the profile, unique in a trace."""
    row: Int32
    """Rows with the property: positions as in a section, ascending in a TraceTable."""
    value: npt.NDArray[Any]
    """One value per row: integers, floats, or string ids if ``is_text``."""
    is_text: bool = False
    title: str = ""
    """Title for users; empty: the key."""
    unit: str = ""
    """As written by the profile; empty if it is in the key or there is none."""

    def at(self, rows: npt.NDArray[np.integer]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Returns values for some rows of a TraceTable, and which of them have one."""
        if not len(self.row):
            return np.zeros(len(rows), self.value.dtype), np.zeros(len(rows), np.bool_)
        place = np.minimum(np.searchsorted(self.row, rows), len(self.row) - 1)
        return self.value[place], self.row[place] == rows


@dataclass(frozen=True, eq=False)
class ReportedColumn:
    """A column of a vendor table; ``values`` are texts, integers or floats, null = empty."""

    key: str
    title: str
    unit: str
    """As the profile writes it; empty for none."""
    values: pa.Array


@dataclass(frozen=True, eq=False)
class ReportedTable:
    """A vendor table with its columns unchanged."""

    name: str
    """Name of the table in URLs: letters, digits and ``_``, unique in a trace."""
    title: str
    columns: tuple[ReportedColumn, ...]


@dataclass(frozen=True, eq=False)
class ReportedSteps:
    """Steps reported by the profile instead of annotations. Times as the rows' ``start_ns``, ascending."""

    label: tuple[str, ...]
    start_ns: Int64
    end_ns: Int64


# Marks a total with only a release recorded, so that the allocated bytes are unknown.
ONLY_RELEASED = -2


@dataclass(frozen=True, eq=False)
class ReportedMemory:
    """Reported data about allocator events: one row for each of them, or none at all. -1 = not reported."""

    name: Int32 = no_rows(np.int32)
    """String id of the requester of the block, for an allocation."""
    allocator: Int32 = no_rows(np.int32)
    """String id of a separate allocator: its blocks and totals are separate."""
    pooled_ns: Int64 = no_rows(np.int64)
    """When released memory was back in the pool. Times as those of the events."""


@dataclass(frozen=True, eq=False)
class AllocatorBlocks:
    """Blocks with both times reported. -1 = absent. Times as the rows' ``start_ns``."""

    start_ns: Int64 = no_rows(np.int64)
    end_ns: Int64 = no_rows(np.int64)
    """Release time; -1 = never, as far as known."""
    bytes: Int64 = no_rows(np.int64)
    name: Int32 = no_rows(np.int32)
    """String id of the requester."""
    allocator: Int32 = no_rows(np.int32)
    """String id of its allocator."""
    device_type: Int32 = no_rows(np.int32)
    """c10 DeviceType, as in MemoryEvents."""
    device_id: Int32 = no_rows(np.int32)


@dataclass(frozen=True, eq=False)
class AllocatorTotals:
    """Totals of allocators (or software components) over time, each valid until the next of its allocator and
    device.

    -1 = absent; ``reserved`` may be ``ONLY_RELEASED``.
    """

    time_ns: Int64 = no_rows(np.int64)
    allocated: Int64 = no_rows(np.int64)
    reserved: Int64 = no_rows(np.int64)
    active: Int64 = no_rows(np.int64)
    allocator: Int32 = no_rows(np.int32)
    """String id of the allocator."""
    device_type: Int32 = no_rows(np.int32)
    device_id: Int32 = no_rows(np.int32)


def moved_columns(columns: Sequence[OpenColumn], position: Int32) -> tuple[OpenColumn, ...]:
    """Returns columns with their rows renamed to new positions, sorted; without removed rows (-1)."""
    moved = []
    for column in columns:
        row = position[column.row]
        order = np.flatnonzero(row != -1)
        order = order[np.argsort(row[order], kind="stable")]
        if len(order):
            moved.append(replace(column, row=row[order], value=column.value[order]))
    return tuple(moved)


def blocks_from(blocks: AllocatorBlocks, origin: int) -> AllocatorBlocks:
    """Returns the blocks in order of their start, counted from ``origin``."""
    order = np.argsort(blocks.start_ns, kind="stable")
    columns = {f.name: getattr(blocks, f.name)[order] for f in fields(blocks)}
    columns["end_ns"] = np.where(columns["end_ns"] == -1, -1, columns["end_ns"] - origin)
    columns["start_ns"] = np.where(columns["start_ns"] == -1, -1, columns["start_ns"] - origin)
    return AllocatorBlocks(**columns)


def totals_from(totals: AllocatorTotals, origin: int) -> AllocatorTotals:
    """Returns the totals in order of time, counted from ``origin``."""
    order = np.argsort(totals.time_ns, kind="stable")
    columns = {f.name: getattr(totals, f.name)[order] for f in fields(totals)}
    columns["time_ns"] = columns["time_ns"] - origin
    return AllocatorTotals(**columns)
