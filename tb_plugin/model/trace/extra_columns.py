"""What a profile says beyond the columns that all traces share: columns and tables of its own, stated steps and blocks.

Nothing here has a meaning to an analysis that was not written for it; it is kept as the profile has it, and shown.
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

RESULT_SHAPES = "Output Dims"
"""Key of the open column with the shapes of what operators returned: text as ``OperatorArgs.shapes``."""

NEVER_ENDED = "never ended"
"""Key of the open column of ranges that nothing ends: 1 for each of them. How long they last nobody recorded."""

GRAPH_ID = "graph id"
"""Key of the open column with the number of the graph that a piece of device work is part of."""
NODE_ID = "graph node id"
"""Key of the open column with the number of its node: alone, or below that of the graph in the upper 32 bits."""
REGION = "name"
"""Key of the open column with the region of the program that a piece of replayed work was captured in."""
REGION_PHASE = "autograd_phase"
"""Key of the open column that tells whether such a region belongs to the backward pass."""
BACKWARD_PHASE = "backward"
"""Value of ``REGION_PHASE`` that says so."""
REGIONS = "annotation"
"""Key of the open column with the same as JSON: a list of objects, outer regions first."""
LAUNCHED = "kernel"
"""Key of the open column with the name of the kernel that a call launches; ``GRID`` and ``BLOCK`` stand beside it."""
GRID, BLOCK = "grid", "block"

REQUESTED, ALLOCATED, RESERVED = "Bytes", "Total Allocated", "Total Reserved"
"""Keys of the open columns of failed requests for memory: bytes requested, and what was in use and reserved then."""
DEVICE_TYPE, DEVICE_NUMBER = "Device Type", "Device Id"
"""Keys of the open columns with their device, as in ``MemoryEvents``."""

SINCE_1970 = "ns since 1970"
"""Unit of stated columns that are times of a clock: whole nanoseconds."""


@dataclass(frozen=True, eq=False)
class OpenColumn:
    """A fact that some rows have under a name of the profile's own, verbatim."""

    key: str
    """The name as the profile has it; no two columns of a trace share one."""
    row: Int32
    """Rows that have the fact: positions as in a section, ascending in a TraceTable."""
    value: npt.NDArray[Any]
    """A value for each row: whole numbers, floats, or string ids where ``is_text``."""
    is_text: bool = False
    title: str = ""
    """What a person reads; empty: the key."""
    unit: str = ""
    """As the profile writes it; empty where the key says it or there is none."""

    def at(self, rows: npt.NDArray[np.integer]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Returns a value for each of some rows of a TraceTable, and which of them have the fact."""
        if not len(self.row):
            return np.zeros(len(rows), self.value.dtype), np.zeros(len(rows), np.bool_)
        place = np.minimum(np.searchsorted(self.row, rows), len(self.row) - 1)
        return self.value[place], self.row[place] == rows


@dataclass(frozen=True, eq=False)
class StatedColumn:
    """A column of a table that a profile states; ``values`` are texts, whole numbers or floats, null = left empty."""

    key: str
    title: str
    unit: str
    """As the profile writes it; empty for none."""
    values: pa.Array


@dataclass(frozen=True, eq=False)
class StatedTable:
    """A table that a profile states and nobody computes: its columns as they are."""

    name: str
    """Names the table in URLs: letters, digits and ``_``; no two tables of a trace share one."""
    title: str
    columns: tuple[StatedColumn, ...]


@dataclass(frozen=True, eq=False)
class StatedSteps:
    """Steps that a profile states, in place of annotations among its rows. Times as the rows' ``start_ns``, ascending."""

    label: tuple[str, ...]
    start_ns: Int64
    end_ns: Int64


ONLY_RELEASED = -2
"""Stands for a total of which a profile says that only a release was seen, so that nobody knows how much is held."""


@dataclass(frozen=True, eq=False)
class StatedMemory:
    """What a profile itself says of its allocator events: a row for each of them, or none at all. -1 = it does not say."""

    name: Int32 = no_rows(np.int32)
    """String id of who asked for the block, of an allocation."""
    allocator: Int32 = no_rows(np.int32)
    """String id of the allocator, where it is not the framework's own: its blocks and totals are apart."""
    pooled_ns: Int64 = no_rows(np.int64)
    """When the memory of a release was back in the pool. Times as those of the events."""


@dataclass(frozen=True, eq=False)
class AllocatorBlocks:
    """Blocks of which a profile states both times. -1 = absent. Times as the rows' ``start_ns``."""

    start_ns: Int64 = no_rows(np.int64)
    end_ns: Int64 = no_rows(np.int64)
    """When it was released; -1 = never, as far as the profile knows."""
    bytes: Int64 = no_rows(np.int64)
    name: Int32 = no_rows(np.int32)
    """String id of who asked for it."""
    allocator: Int32 = no_rows(np.int32)
    """String id of the allocator that gave it."""
    device_type: Int32 = no_rows(np.int32)
    """c10 DeviceType, as in MemoryEvents."""
    device_id: Int32 = no_rows(np.int32)


@dataclass(frozen=True, eq=False)
class AllocatorTotals:
    """Totals of allocators (or of parts of the software) over time, each until the next of its allocator and device.

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
    """Returns columns with their rows renamed to their new positions, sorted; of rows that were set aside (-1) none."""
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
