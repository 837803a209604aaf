"""Memory: blocks of ``operator_memory.csv`` as events of an allocator, and totals of ``memory_record.csv``."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.readers.ascend.csv_table import CsvTable
from tb_plugin.readers.ascend.kernels import ids_of
from tb_plugin.readers.chrome.interning import Interner
from tb_plugin.trace.open import AllocatorBlocks, AllocatorTotals
from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.table import MemoryEvents

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Float64 = npt.NDArray[np.float64]

NPU_TYPE = 20
"""c10's PrivateUse1, which torch_npu calls npu."""
KIB, MIB = 1024.0, 1024.0**2
_DEVICE = re.compile(r"(?i)NPU:(\d{1,6})\Z")
PYTORCH, GRAPH = "PTA", "GE"
OF_GRAPH = "cann::"
"""How names begin of what the graph engine's allocator gave."""


def blocks_of(table: CsvTable, interner: Interner) -> AllocatorBlocks:
    """Returns the blocks; one that was there before the recording has no begin, one that is held at its end none."""
    start, has_start = table.nanoseconds("Allocation Time(us)")
    end, has_end = table.nanoseconds("Release Time(us)")
    size = _bytes(table.numbers("Size(KB)"), KIB)
    row = np.flatnonzero((has_start | has_end) & (size != MISSING))
    names = table.texts("Name")
    return AllocatorBlocks(
        start_ns=np.where(has_start, start, MISSING)[row],
        end_ns=np.where(has_end, end, MISSING)[row],
        bytes=size[row],
        name=ids_of(names, interner)[row],
        allocator=np.where(_of_graph(table), interner.text(GRAPH), interner.text(PYTORCH)).astype(np.int32)[row],
        device_type=np.full(len(row), NPU_TYPE, np.int32),
        device_id=_devices(table.texts("Device Type"))[row],
    )


def events_of(table: CsvTable, interner: Interner, thread: int) -> MemoryEvents:
    """Returns an allocation and a release for each block of PyTorch's allocator, with the totals beside them.

    The graph engine's allocator has totals of its own, so that a series of both would be none; ``blocks_of`` has its blocks.
    The file has no addresses: each block has the number of its row. ``thread`` is the string id of who is said to have asked.
    """
    size = _bytes(table.numbers("Size(KB)"), KIB)
    device = _devices(table.texts("Device Type"))
    ours = ~_of_graph(table)
    parts = []
    for when, sign in (("Allocation", 1), ("Release", -1)):
        time, there = table.nanoseconds(f"{when} Time(us)")
        row = np.flatnonzero(there & ours & (size != MISSING) & (size != 0))
        allocated, reserved = (
            _bytes(table.numbers(f"{when} Total {what}(MB)"), MIB)[row] for what in ("Allocated", "Reserved")
        )
        parts.append((time[row], sign * np.abs(size[row]), row + 1, allocated, reserved, device[row]))
    time, change, address, allocated, reserved, number = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(time, kind="stable")
    who = np.full(len(order), thread, np.int32)
    return MemoryEvents(
        time_ns=time[order],
        bytes=change[order],
        address=address[order].astype(np.int64),
        total_allocated=allocated[order],
        total_reserved=reserved[order],
        device_type=np.full(len(order), NPU_TYPE, np.int32),
        device_id=number[order],
        pid=who,
        tid=who,
    )


def totals_of(table: CsvTable, interner: Interner) -> AllocatorTotals:
    """Returns the totals of all allocators and components."""
    time, there = table.nanoseconds("Timestamp(us)")
    row = np.flatnonzero(there)
    allocated, reserved, active = (
        _bytes(table.numbers(f"Total {what}(MB)"), MIB)[row] for what in ("Allocated", "Reserved", "Active")
    )
    return AllocatorTotals(
        time_ns=time[row],
        allocated=allocated,
        reserved=reserved,
        active=active,
        allocator=ids_of(table.texts("Component"), interner)[row],
        device_type=np.full(len(row), NPU_TYPE, np.int32),
        device_id=_devices(table.texts("Device Type"))[row],
    )


def _of_graph(table: CsvTable) -> npt.NDArray[np.bool_]:
    """Which blocks the graph engine's allocator gave."""
    return np.asarray(pc.fill_null(pc.starts_with(table.texts("Name"), OF_GRAPH), False))


def _bytes(values: Float64, unit: float) -> Int64:
    """Whole bytes of a column in larger units; -1 = absent."""
    good = np.isfinite(values) & (np.abs(values) < 2.0**62 / unit)
    return np.where(good, np.rint(np.where(good, values, 0.0) * unit), MISSING).astype(np.int64)


def _devices(cells: pa.Array) -> Int32:
    """Numbers of devices named ``NPU:3``; 0 where a cell names none."""
    encoded = cells.dictionary_encode()
    numbers = [int(match[1]) if (match := _DEVICE.match(text)) else 0 for text in encoded.dictionary.to_pylist()]
    found: Int32 = np.array([*numbers, 0], np.int32)[np.asarray(pc.fill_null(encoded.indices, len(numbers)))]
    return found
