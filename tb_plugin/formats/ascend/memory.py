"""Allocator events and totals from the memory files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.formats.ascend.kernel_details import ids_of
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Bool, Float64, Int32, Int64
from tb_plugin.lib.groupby import number_groups
from tb_plugin.model.trace.extra_columns import (
    RELEASE_WITHOUT_ALLOCATION,
    AllocatorBlocks,
    AllocatorTotals,
    ReportedMemory,
)
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import MemoryEvents

NPU_TYPE = 20  # c10's PrivateUse1, which torch_npu calls npu
KIB, MIB = 1024.0, 1024.0**2
MOST_NAMES = 2_000  # maximum number of combinations of device and allocator or component; CANN has 78 components
_DEVICE = re.compile(r"(?i)NPU:(\d{1,6})\Z")
PYTORCH, GRAPH, BOTH = "PTA", "GE", "PTA+GE"
OF_GRAPH = "cann::"  # name prefix of blocks from the graph engine's allocator


def memory_in(tables: Mapping[str, CsvTable], interner: Interner) -> tuple[dict[str, Any], dict[str, IssueLog]]:
    """Returns the memory fields of a RawTrace, and the issues by file."""
    found: dict[str, Any] = {}
    logs = {files.MEMORY: IssueLog(), files.MODULES: IssueLog()}
    if (table := tables.get(files.BLOCKS)) is not None:
        found["memory"], found["reported_memory"] = events_of(table, interner, interner.text(""))
        found["blocks"] = blocks_of(table, interner)
    if (table := tables.get(files.MEMORY)) is not None:
        found["totals"] = totals_of(table, interner, logs[files.MEMORY])
    if (table := tables.get(files.MODULES)) is not None and table.has("Component"):
        found["components"] = components_of(table, interner, logs[files.MODULES])
    return found, logs


def devices_in(found: Mapping[str, Any]) -> Int32:
    """Returns the devices in the memory files. Some of them may have no kernels."""
    numbers = [found[key].device_id for key in ("memory", "totals", "components") if key in found]
    return np.unique(np.concatenate((np.empty(0, np.int32), *numbers)))


def blocks_of(table: CsvTable, interner: Interner) -> AllocatorBlocks:
    """Returns the blocks. Blocks from before the recording have no start, and blocks never freed no end."""
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
        allocator=np.where(_is_graph(table), interner.text(GRAPH), interner.text(PYTORCH)).astype(np.int32)[row],
        device_type=np.full(len(row), NPU_TYPE, np.int32),
        device_id=_devices(table.texts("Device Type"))[row],
    )


def events_of(table: CsvTable, interner: Interner, thread: int) -> tuple[MemoryEvents, ReportedMemory]:
    """Returns an allocation event and a release event for each block, all on ``thread``.

    A block from before the recording has a negative size and no allocation event. Blocks of the graph engine are
    marked, because its allocator has separate totals. Without addresses, the address is the row number.
    """
    size = _bytes(table.numbers("Size(KB)"), KIB)
    pooled, is_pooled = table.nanoseconds("Active Release Time(us)")
    name = ids_of(table.texts("Name"), interner)
    allocator = np.where(_is_graph(table), interner.text(GRAPH), MISSING)
    parts = []
    for when, signed in (("Allocation", 1), ("Release", -1)):
        time, has_value = table.nanoseconds(f"{when} Time(us)")
        row = np.flatnonzero(has_value & (size != MISSING) & (size != 0))
        totals = (_bytes(table.numbers(f"{when} Total {what}(MB)"), MIB)[row] for what in ("Allocated", "Reserved"))
        parts.append((time[row], row, np.full(len(row), signed), *totals))
    every = [np.concatenate(each) for each in zip(*parts, strict=True)]
    time, row, sign, allocated, reserved = (each[np.argsort(every[0], kind="stable")] for each in every)
    no_thread = np.full(len(row), thread, np.int32)
    events = MemoryEvents(
        time_ns=time,
        bytes=sign * np.abs(size[row]),
        address=row + 1,
        total_allocated=allocated,
        total_reserved=reserved,
        device_type=np.full(len(row), NPU_TYPE, np.int32),
        device_id=_devices(table.texts("Device Type"))[row],
        pid=no_thread,
        tid=no_thread,
    )
    return events, ReportedMemory(
        np.where(sign > 0, name[row], MISSING).astype(np.int32),
        allocator[row].astype(np.int32),
        np.where((sign < 0) & is_pooled[row], pooled[row], MISSING),
    )


def components_of(table: CsvTable, interner: Interner, log: IssueLog) -> AllocatorTotals:
    """Returns the memory of software components. Of negative values, only the release was recorded."""
    totals = _table_totals(table, "Device", interner)
    is_release = table.numbers("Total Reserved(MB)")[table.nanoseconds("Timestamp(us)")[1]] < 0
    return _limited(replace(totals, reserved=np.where(is_release, RELEASE_WITHOUT_ALLOCATION, totals.reserved)), log)


def totals_of(table: CsvTable, interner: Interner, log: IssueLog) -> AllocatorTotals:
    """Returns the totals of all allocators. If a device has totals of both allocators but no sum of the two, adds the sum."""
    found = _limited(_table_totals(table, "Device Type", interner), log)
    both, pytorch, graph = (interner.text(name) for name in (BOTH, PYTORCH, GRAPH))
    parts = [found]
    for device in np.unique(found.device_id).tolist():
        ours = found.device_id == device
        has_value = set(found.allocator[ours].tolist())
        if both not in has_value and {pytorch, graph} <= has_value:
            parts.append(_summed(found, ours, pytorch, graph, both))
            log.add("added_up", "note", count=len(parts[-1].time_ns))
    return AllocatorTotals(**{f: np.concatenate([getattr(part, f) for part in parts]) for f in found.__struct_fields__})


def _limited(totals: AllocatorTotals, log: IssueLog) -> AllocatorTotals:
    """Returns the totals of at most MOST_NAMES pairs of allocator and device, because each pair becomes a curve."""
    pair, count = number_groups(totals.device_id.astype(np.int64) << 32 | totals.allocator.astype(np.int64) + 1)
    if count <= MOST_NAMES:
        return totals
    kept = pair < MOST_NAMES
    log.add("many_names", "dropped", count=int((~kept).sum()))
    return AllocatorTotals(**{f: getattr(totals, f)[kept] for f in totals.__struct_fields__})


def _summed(totals: AllocatorTotals, ours: Bool, pytorch: int, graph: int, both: int) -> AllocatorTotals:
    row = np.flatnonzero(ours & np.isin(totals.allocator, (pytorch, graph)))
    row = row[np.argsort(totals.time_ns[row], kind="stable")]
    place = np.arange(len(row))
    last = [np.maximum.accumulate(np.where(totals.allocator[row] == one, place, -1)) for one in (pytorch, graph)]
    columns = {f: getattr(totals, f)[row] for f in totals.__struct_fields__}
    for key in ("allocated", "reserved", "active"):
        values = columns[key]
        sides = [np.where(at >= 0, values[at], MISSING) for at in last]
        sum_of = sum(np.where(side == MISSING, 0, side) for side in sides)
        columns[key] = np.where(np.all([side == MISSING for side in sides], axis=0), MISSING, sum_of)
    return AllocatorTotals(**{**columns, "allocator": np.full(len(row), both, np.int32)})


def _table_totals(table: CsvTable, device: str, interner: Interner) -> AllocatorTotals:
    time, has_value = table.nanoseconds("Timestamp(us)")
    row = np.flatnonzero(has_value)
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
        device_id=_devices(table.texts(device))[row],
    )


def _is_graph(table: CsvTable) -> Bool:
    return np.asarray(pc.fill_null(pc.starts_with(table.texts("Name"), OF_GRAPH), False))


def _bytes(values: Float64, unit: float) -> Int64:
    good = np.isfinite(values) & (np.abs(values) < 2.0**62 / unit)
    return np.where(good, np.rint(np.where(good, values, 0.0) * unit), MISSING).astype(np.int64)


def _devices(cells: pa.Array) -> Int32:
    """Returns device numbers from texts such as ``NPU:3``; 0 = missing."""
    encoded = cells.dictionary_encode()
    numbers = [int(match[1]) if (match := _DEVICE.match(text)) else 0 for text in encoded.dictionary.to_pylist()]
    found: Int32 = np.array([*numbers, 0], np.int32)[np.asarray(pc.fill_null(encoded.indices, len(numbers)))]
    return found
