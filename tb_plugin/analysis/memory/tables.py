"""Tables of memory by operator."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.forest import Forest, Spans, is_top_level, with_ancestors
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.origins import Origins
from tb_plugin.analysis.memory.owners import Owners
from tb_plugin.analysis.memory.trace_devices import Device
from tb_plugin.analysis.memory.window import MemoryRange
from tb_plugin.analysis.range_patterns import MODULE
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import Groups, group, places_of, sum_by
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING, NO_OPERATOR, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Sort

# Owner of memory that was live before the first event.
BEFORE = "(before the trace)"
# Owner of the difference if the recorded total is below the sum of live blocks.
LOST = "(releases not recorded)"
TOTALS = ("size_increase_bytes", "allocation_count", "allocation_bytes")
SUMS = (
    "size_increase_bytes", "self_size_increase_bytes", "allocation_count", "self_allocation_count",
    "allocation_bytes", "self_allocation_bytes",
)  # fmt: skip


class MemoryScene(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    trace: TraceTable
    owners: Owners
    origins: Origins
    window: MemoryRange


def operator_frame(scene: MemoryScene, devices: Sequence[Device]) -> Frame:
    """Returns one row per device and operator. All events outside of operators are in one row."""
    # Threads without allocations count too: the number of calls equals that of the operator view.
    calls = _calls(scene, np.flatnonzero(scene.trace.kind == EventKind.OPERATOR))
    found = [_operators(scene, device, calls) for device in devices]
    order = ("self_size_increase_bytes", "self_allocation_bytes")
    return frame_by_operator("memory_operators", "Memory by operator", devices, found, ("calls", *SUMS), order)


def outermost_frame(scene: MemoryScene, devices: Sequence[Device]) -> Frame:
    """Returns one row per device and top-level operator. Each allocation is included in exactly one row."""
    trace = scene.trace
    calls = _calls(scene, np.flatnonzero((trace.kind == EventKind.OPERATOR) & (trace.operator == MISSING)))
    found = [_outermost(scene, device, calls) for device in devices]
    order, title = ("size_increase_bytes", "allocation_bytes"), "Memory by top-level operator"
    return frame_by_operator("memory_operators_outermost", title, devices, found, ("outer_calls", *TOTALS), order)


def frame_by_operator(
    name: str,
    title: str,
    devices: Sequence[Device],
    found: Sequence[pa.Table],
    keys: Sequence[str],
    order: Sequence[str],
) -> Frame:
    """Returns a table with one row per device and operator, sorted by ``order``. The second of its columns has shares."""
    schema = pa.schema({"name": pa.large_string(), "device": pa.string(), **dict.fromkeys(keys, pa.int64())})
    columns = METRICS.columns("name", "device", *keys, hidden=hidden_of(devices), share=(order[1],))
    sorting = [*((key, "descending") for key in order), ("device", "ascending"), ("name", "ascending")]
    data = sorted_by(pa.concat_tables([schema.empty_table(), *found]), sorting)
    return Frame(name, title, columns, data, ("device", "name"), "name", Sort(order[0], True))


def _calls(scene: MemoryScene, operators: Int64) -> Int64:
    began = operators[scene.window.holds(scene.trace.start_ns[operators])]
    return np.bincount(scene.trace.name[began], minlength=len(scene.trace.strings))


def _outermost(scene: MemoryScene, device: Device, calls: Int64) -> pa.Table:
    inside = scene.window.holds(device.time_ns) & (device.bytes != 0)
    name, size = scene.owners.outermost(scene.trace, device.record[inside]), device.bytes[inside]
    groups = group(name) if len(name) else Groups(np.empty(0, np.int64), np.empty(0, np.int64))
    first = name[groups.first]
    grown = np.maximum(size, 0)
    data = {
        "name": pc.fill_null(scene.trace.strings.take(first), pa.scalar(NO_OPERATOR, pa.large_string())),
        "device": pa.array([device.name] * len(groups), pa.string()),
        "outer_calls": pa.array(np.where(first == MISSING, 0, calls[first])),
    }
    sums = {key: groups.sum(values) for key, values in zip(TOTALS, (size, np.sign(grown), grown), strict=True)}
    return pa.table({**data, **{key: pa.array(values) for key, values in sums.items()}})


def hidden_of(devices: Sequence[object]) -> tuple[str, ...]:
    """Returns the columns that tables about these devices hide: the device, if there is only one."""
    return ("device",) if len(devices) == 1 else ()


def _operators(scene: MemoryScene, device: Device, calls: Int64) -> pa.Table:
    trace, owners = scene.trace, scene.owners
    inside = scene.window.holds(device.time_ns) & (device.bytes != 0)
    owner, size = owners.operator[device.record[inside]], device.bytes[inside]
    grown = np.maximum(size, 0)
    row, parent = with_ancestors(owners.parent, owner)
    place = places_of(row, len(owners.operators))[owner]
    own = [sum_by(place, values, len(row)) for values in (size, np.sign(grown), grown)]
    forest = Forest(parent)
    total = [forest.sums(values) for values in own]
    rows = owners.operators[row]
    groups = group(trace.name[rows])
    once = is_top_level(trace.name[rows], Spans(trace.track[rows], trace.start_ns[rows], trace.ends(rows)))
    data: dict[str, Int64] = {"calls": calls[trace.name[rows][groups.first]]}
    for i, key in enumerate(SUMS):
        values = own[i // 2] if i % 2 else np.where(once, total[i // 2], 0)
        data[key] = groups.sum(values)
    known = trace.name[rows][groups.first]
    alone = np.flatnonzero(owner == MISSING)
    outside = owners.names(trace, device.record[inside][alone])  # reported names, -1 = none
    name = np.union1d(known, outside)
    sums = {key: np.zeros(len(name), np.int64) for key in data}
    for key, values in data.items():
        sums[key][np.searchsorted(name, known)] = values
    place = np.searchsorted(name, outside)
    sums["calls"][place] = np.where(outside == MISSING, 0, calls[outside])
    for i, key in enumerate(SUMS):
        sums[key] += sum_by(place, (size, np.sign(grown), grown)[i // 2][alone], len(name))
    has_values = np.any([sums[key] != 0 for key in SUMS], axis=0)
    names = pc.fill_null(trace.strings.take(name), pa.scalar(NO_OPERATOR, pa.large_string()))
    columns = {key: pa.array(values) for key, values in sums.items()}
    # Operators that are known by name only have no recorded calls.
    columns["calls"] = pa.array(sums["calls"], mask=(sums["calls"] == 0) & (name != MISSING) & ~np.isin(name, known))
    table = pa.table({"name": names, "device": pa.array([device.name] * len(names), pa.string()), **columns})
    return table.filter(pa.array(has_values))


def owner_names(trace: TraceTable, owners: Owners, event: Int64, known: Bool) -> pa.Array:
    """Returns the names of the allocating operators. ``known`` is False for blocks from before the trace."""
    names = trace.strings.take(np.where(known, owners.names(trace, event), MISSING))
    nobody, older = (pa.scalar(text, pa.large_string()) for text in (NO_OPERATOR, BEFORE))
    return pc.coalesce(names, pc.if_else(pa.array(known), nobody, older))


def module_names(trace: TraceTable, name: Int32) -> pa.Array:
    """Returns the module names without their prefix, null for -1."""
    return pc.replace_substring_regex(trace.strings.take(name), pattern=MODULE, replacement="")
