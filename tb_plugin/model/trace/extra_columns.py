"""Profile-specific data: extra columns, vendor tables, reported steps and blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.model.trace.schema import no_rows, taken

# Key of the extra column with output shapes, in the format of OperatorArgs.shapes.
RESULT_SHAPES = "Output Dims"

# Key of the extra column that marks ranges without a recorded end with 1. Their duration is unknown.
NEVER_ENDED = "never ended"

# Key of the extra column with the graph id of device work.
GRAPH_ID = "graph id"
# Key of the extra column with the graph node id. The upper 32 bits may contain the graph id.
NODE_ID = "graph node id"
# Key of the extra column with the program region in which replayed work was captured.
REGION = "name"
# Key of the extra column with the pass (forward or backward) of such a region.
REGION_PHASE = "autograd_phase"
# Value of REGION_PHASE for the backward pass.
BACKWARD_PHASE = "backward"
# Key of the extra column with all enclosing regions as a JSON list of objects, outermost first.
REGIONS = "annotation"
# Keys of the extra columns of a launching call: kernel name, grid and block size.
LAUNCHED = "kernel"
GRID, BLOCK = "grid", "block"

# Keys of the extra columns of a recorded wait of one stream for another: number of the awaited stream, and correlation id
# of the call that recorded the awaited event.
AWAITED_STREAM, RECORDING_CALL = "wait_on_stream", "wait_on_cuda_event_record_corr_id"

# Keys of the extra columns of failed memory requests: requested, allocated and reserved bytes.
REQUESTED, ALLOCATED, RESERVED = "Bytes", "Total Allocated", "Total Reserved"
# Keys of the extra columns with the device of failed memory requests, as in MemoryEvents.
DEVICE_TYPE, DEVICE_NUMBER = "Device Type", "Device Id"

# Unit of vendor columns with wall-clock times in whole nanoseconds.
SINCE_1970 = "ns since 1970"


class OpenColumn(msgspec.Struct, frozen=True, eq=False):
    """An extra property of some rows. The property has the same name as in the profile."""

    key: str
    row: Int32
    """Rows that have the property; in ascending order if the column belongs to a TraceTable."""
    value: npt.NDArray[Any]
    """One value per row: integers, floats, or string ids if ``is_text``."""
    is_text: bool = False
    title: str = ""
    """Title of the property for users. If the title is empty, the key is displayed."""
    unit: str = ""
    """Unit as written in the profile. Empty if there is no unit, or if the key contains the unit."""

    def at(self, rows: npt.NDArray[np.integer]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Returns, for some rows of a TraceTable, the values of the property, and whether each row has a value."""
        if not len(self.row):
            return np.zeros(len(rows), self.value.dtype), np.zeros(len(rows), np.bool_)
        place = np.minimum(np.searchsorted(self.row, rows), len(self.row) - 1)
        return self.value[place], self.row[place] == rows


def integers_of(columns: Sequence[OpenColumn], key: str) -> tuple[Int32, Int64] | None:
    """Returns the rows and values of an extra column; None if no column with this key contains integers."""
    for column in columns:
        if column.key == key and not column.is_text and column.value.dtype.kind == "i":
            return column.row, column.value.astype(np.int64)
    return None


class ReportedColumn(msgspec.Struct, frozen=True, eq=False):
    """A column of a vendor table. ``values`` contains texts, integers or floats; null = empty."""

    key: str
    title: str
    unit: str
    values: pa.Array


class ReportedTable(msgspec.Struct, frozen=True, eq=False):
    name: str
    """Name of the table in URLs: letters, digits and ``_``; unique within a trace."""
    title: str
    columns: tuple[ReportedColumn, ...]


class ReportedSteps(msgspec.Struct, frozen=True, eq=False):
    """Steps that the profiler reports in a separate table, by time, on the clock of rows."""

    label: tuple[str, ...]
    start_ns: Int64
    end_ns: Int64


# Value of a total if only a release was recorded, so that the allocated bytes are unknown.
RELEASE_WITHOUT_ALLOCATION = -2


class ReportedMemory(msgspec.Struct, frozen=True, eq=False):
    """Extra data about allocator events, one row per event, or empty. -1 = not reported."""

    name: Int32 = no_rows(np.int32)
    """String id of the operator or component that requested the block. Releases have no such name."""
    allocator: Int32 = no_rows(np.int32)
    """String id of the allocator. Each allocator has separate blocks and totals."""
    pooled_ns: Int64 = no_rows(np.int64)
    """Time when the released memory returned to the pool, on the same clock as the allocator events."""


class AllocatorBlocks(msgspec.Struct, frozen=True, eq=False):
    """Memory blocks that the profiler reports, with times on the clock of rows. -1 = absent."""

    start_ns: Int64 = no_rows(np.int64)
    end_ns: Int64 = no_rows(np.int64)
    bytes: Int64 = no_rows(np.int64)
    name: Int32 = no_rows(np.int32)
    allocator: Int32 = no_rows(np.int32)
    device_type: Int32 = no_rows(np.int32)
    device_id: Int32 = no_rows(np.int32)


class AllocatorTotals(msgspec.Struct, frozen=True, eq=False):
    """Totals of allocators or components; each is valid until the next of the same allocator and device. -1 = absent."""

    time_ns: Int64 = no_rows(np.int64)
    allocated: Int64 = no_rows(np.int64)
    reserved: Int64 = no_rows(np.int64)
    active: Int64 = no_rows(np.int64)
    allocator: Int32 = no_rows(np.int32)
    device_type: Int32 = no_rows(np.int32)
    device_id: Int32 = no_rows(np.int32)


def moved_columns(columns: Sequence[OpenColumn], position: Int32) -> tuple[OpenColumn, ...]:
    """Replaces row numbers by ``position[row]`` (-1 drops the row), and sorts by row number."""
    moved = []
    for column in columns:
        row = position[column.row]
        order = np.flatnonzero(row != -1)
        order = order[np.argsort(row[order], kind="stable")]
        if len(order):
            moved.append(replace(column, row=row[order], value=column.value[order]))
    return tuple(moved)


def blocks_from(blocks: AllocatorBlocks, origin: int) -> AllocatorBlocks:
    """Returns the blocks sorted by start. Their times are converted to times relative to ``origin``."""
    order = np.argsort(blocks.start_ns, kind="stable")
    blocks = taken(blocks, order)
    start, end = (np.where(times == -1, -1, times - origin) for times in (blocks.start_ns, blocks.end_ns))
    return replace(blocks, start_ns=start, end_ns=end)
