"""The tables: operators with what they allocated, blocks with their lives, and what was live at a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analyses.base import Frame
from tb_plugin.analyses.grouping import Forest, Groups, Spans, group, outermost, sum_by, with_ancestors
from tb_plugin.analyses.memory.metrics import METRICS
from tb_plugin.analyses.memory.records import Device, Owners
from tb_plugin.analyses.memory.window import MemoryRange
from tb_plugin.analyses.names import MODULE
from tb_plugin.payloads import Sort
from tb_plugin.trace.numbering import places_of
from tb_plugin.trace.schema import MISSING, NO_OPERATOR, EventKind
from tb_plugin.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

BEFORE = "(before the trace)"
"""Stands for whoever allocated what was live before the first event."""
LOST = "(releases not recorded)"
"""Stands for the difference where the recorded total is less than the blocks that nobody released."""
TOTALS = ("size_increase_bytes", "allocation_count", "allocation_bytes")
SUMS = (
    "size_increase_bytes", "self_size_increase_bytes", "allocation_count", "self_allocation_count",
    "allocation_bytes", "self_allocation_bytes",
)  # fmt: skip
STATES = ("released", "released later", "never released", "allocated before", "unpaired")
STATES_OF_PART = (*STATES[:2], "released later or never", *STATES[3:])
"""States in a trace that was opened as a window: what comes after it was not read."""
RELEASED, LATER, KEPT, OLDER, UNPAIRED = range(5)


@dataclass(frozen=True, eq=False)
class Scene:
    """What all tables are about."""

    trace: TraceTable
    owners: Owners
    window: MemoryRange


def operator_frame(scene: Scene, devices: Sequence[Device]) -> Frame:
    """Returns a row per device and operator; the row of no operator holds what happened outside any."""
    trace = scene.trace
    # Also on threads that allocate nothing: the number of calls is that of the operator view.
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    began = operators[scene.window.holds(trace.start_ns[operators])]
    calls = np.bincount(trace.name[began], minlength=len(trace.strings))
    found = [_operators(scene, device, calls) for device in devices]
    empty = {"name": pa.array([], pa.large_string()), "device": pa.array([], pa.string())}
    empty |= {key: pa.array([], pa.int64()) for key in ("calls", *SUMS)}
    table = pa.concat_tables([pa.table(empty), *found])
    order = [("self_size_increase_bytes", "descending"), ("self_allocation_bytes", "descending")]
    return Frame(
        name="memory_operators",
        title="Memory by operator",
        columns=METRICS.columns(
            "name", "device", "calls", *SUMS, hidden=_hidden(devices), share=("self_allocation_bytes",)
        ),
        data=table.sort_by([*order, ("device", "ascending"), ("name", "ascending")]),
        row_key=("device", "name"),
        name_column="name",
        sort=Sort("self_size_increase_bytes", True),
    )


def outermost_frame(scene: Scene, devices: Sequence[Device]) -> Frame:
    """Returns a row per device and operator around which there is none: each allocation stands in one row."""
    trace = scene.trace
    alone = np.flatnonzero((trace.kind == EventKind.OPERATOR) & (trace.operator == MISSING))
    began = alone[scene.window.holds(trace.start_ns[alone])]
    calls = np.bincount(trace.name[began], minlength=len(trace.strings))
    found = [_outermost(scene, device, calls) for device in devices]
    empty = {"name": pa.array([], pa.large_string()), "device": pa.array([], pa.string())}
    empty |= {key: pa.array([], pa.int64()) for key in ("outer_calls", *TOTALS)}
    order = [("size_increase_bytes", "descending"), ("allocation_bytes", "descending")]
    return Frame(
        name="memory_operators_outermost",
        title="Memory by outermost operator",
        columns=METRICS.columns(
            "name", "device", "outer_calls", *TOTALS, hidden=_hidden(devices), share=("allocation_bytes",)
        ),
        data=pa.concat_tables([pa.table(empty), *found]).sort_by(
            [*order, ("device", "ascending"), ("name", "ascending")]
        ),
        row_key=("device", "name"),
        name_column="name",
        sort=Sort("size_increase_bytes", True),
    )


def _outermost(scene: Scene, device: Device, calls: Int64) -> pa.Table:
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


def _hidden(devices: Sequence[object]) -> tuple[str, ...]:
    """One device alone needs no column."""
    return ("device",) if len(devices) == 1 else ()


def _operators(scene: Scene, device: Device, calls: Int64) -> pa.Table:
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
    once = outermost(trace.name[rows], Spans(trace.track[rows], trace.start_ns[rows], trace.end_ns[rows]))
    data: dict[str, Int64] = {"calls": calls[trace.name[rows][groups.first]]}
    for i, key in enumerate(SUMS):
        values = own[i // 2] if i % 2 else np.where(once, total[i // 2], 0)
        data[key] = groups.sum(values)
    names = trace.strings.take(trace.name[rows][groups.first])
    alone = owner == MISSING
    if alone.any():
        outside = [int(v[alone].sum()) for v in (size, np.sign(grown), grown)]
        data = {key: np.append(v, 0 if key == "calls" else outside[(i - 1) // 2]) for i, (key, v) in
                enumerate(data.items())}  # fmt: skip
        names = pa.concat_arrays([names, pa.array([NO_OPERATOR], pa.large_string())])
    said = np.any([data[key] != 0 for key in SUMS], axis=0)
    table = pa.table({"name": names, "device": pa.array([device.name] * len(names), pa.string()), **data})
    return table.filter(pa.array(said))


def every_block(trace: TraceTable, owners: Owners, devices: Sequence[Device]) -> pa.Table:
    """Returns all blocks of some devices, the largest first: what ``block_frame`` chooses from, and ``paired``."""
    found = [_blocks(trace, owners, device) for device in devices]
    empty = pa.table({key: pa.array([], _TYPES.get(key, pa.int64())) for key in (*_STANDING, "paired")})
    order = [("block_bytes", "descending"), ("device", "ascending"), ("block_number", "ascending")]
    return pa.concat_tables([empty, *found]).sort_by(order).combine_chunks()


def block_frame(window: MemoryRange, blocks: pa.Table, devices: Sequence[Device]) -> Frame:
    """Returns those of ``every_block`` that were allocated or released in the window on the devices."""
    has_allocation, has_release = (_valid(blocks[key]) for key in ("allocated_at_ns", "released_at_ns"))
    begin, end = (pc.fill_null(blocks[key], 0).to_numpy() for key in ("allocated_at_ns", "released_at_ns"))
    begins, ends = has_allocation & window.holds(begin), has_release & window.holds(end)
    paired = blocks["paired"].to_numpy()
    state = np.select([~paired, begins & ends, ends, has_release], [UNPAIRED, RELEASED, OLDER, LATER], KEPT)
    ours = pc.is_in(blocks["device"], pa.array([device.name for device in devices], pa.string()))
    chosen = np.flatnonzero((begins | ends) & ours.to_numpy())
    states = pa.array(STATES if window.is_end_known else STATES_OF_PART, pa.string())
    table = blocks.take(chosen).append_column("block_state", states.take(pa.array(state[chosen])))
    return Frame(
        name="memory_events",
        title="Memory blocks",
        columns=METRICS.columns(*_BLOCK_KEYS, hidden=("block_number", "module", *_hidden(devices))),
        data=table.select(_BLOCK_KEYS),
        row_key=("device", "block_number"),
        name_column="name",
        sort=Sort("block_bytes", True),
    )


_BLOCK_KEYS = (
    "name", "caller", "outermost_operator", "module", "device", "block_bytes", "allocated_at_ns", "released_at_ns",
    "lifetime_ns", "block_state", "block_number",
)  # fmt: skip
_STANDING = tuple(key for key in _BLOCK_KEYS if key != "block_state")
"""What a block has whatever the window."""
_TYPES = {
    "name": pa.large_string(),
    "caller": pa.large_string(),
    "outermost_operator": pa.large_string(),
    "module": pa.large_string(),
    "device": pa.string(),
    "paired": pa.bool_(),
}


def _blocks(trace: TraceTable, owners: Owners, device: Device) -> pa.Table:
    blocks = device.blocks
    has_allocation, has_release = blocks.allocation != MISSING, blocks.release != MISSING
    begin, end = _at(device.time_ns, blocks.allocation), _at(device.time_ns, blocks.release)
    # A release that stands alone is its own operator's.
    known = has_allocation | ~blocks.paired
    event = _at(device.record, np.where(has_allocation, blocks.allocation, blocks.release))
    data = {
        "name": _owner_names(trace, owners, event, known),
        "caller": trace.strings.take(np.where(known, owners.callers(trace, event), MISSING)),
        "outermost_operator": trace.strings.take(np.where(known, owners.outermost(trace, event), MISSING)),
        "module": module_names(trace, np.where(known, owners.modules(trace, event), MISSING)),
        "device": pa.repeat(device.name, len(event)),
        "block_bytes": pa.array(blocks.bytes),
        "allocated_at_ns": pa.array(begin, mask=~has_allocation),
        "released_at_ns": pa.array(end, mask=~has_release),
        "lifetime_ns": pa.array(end - begin, mask=~(has_allocation & has_release)),
        "block_number": pa.array(np.arange(len(event))),
        "paired": pa.array(blocks.paired),
    }
    return pa.table({key: data[key] for key in (*_STANDING, "paired")})


def _valid(values: pa.ChunkedArray) -> Bool:
    flags: Bool = pc.is_valid(values).to_numpy()
    return flags


def _at(values: Int64, position: Int64) -> Int64:
    return np.append(values, 0)[position]


def _owner_names(trace: TraceTable, owners: Owners, event: Int64, known: Bool) -> pa.Array:
    """Names of the allocating operators; of blocks without a recorded allocation, that they are older."""
    names = trace.strings.take(np.where(known, owners.names(trace, event), MISSING))
    nobody, older = (pa.scalar(text, pa.large_string()) for text in (NO_OPERATOR, BEFORE))
    return pc.coalesce(names, pc.if_else(pa.array(known), nobody, older))


def module_names(trace: TraceTable, name: Int32) -> pa.Array:
    """Names of modules as the module view shows them; null for none."""
    return pc.replace_substring_regex(trace.strings.take(name), pattern=MODULE, replacement="")


@dataclass(frozen=True, eq=False)
class Live:
    """What was live on a device after one event: sums by operator, outermost operator and module. They sum to ``total``."""

    table: pa.Table
    total: int


def live_at(scene: Scene, device: Device, at: int) -> Live:
    """Blocks live after the event at a position, and the rest, which was allocated before the trace."""
    total = device.level(at)
    blocks = device.blocks
    alive = np.flatnonzero(blocks.told(at))
    if not (device.has_addresses and device.has_totals):
        alive, total = alive[:0], 0
    event = device.record[blocks.allocation[alive]]
    owners, trace = scene.owners, scene.trace
    name, outer, module = (of(trace, event) for of in (owners.names, owners.outermost, owners.modules))
    groups = group(name, outer, module)
    size = groups.sum(blocks.bytes[alive])
    table = pa.table(
        {
            "name": _owner_names(trace, owners, event[groups.first], np.ones(len(groups), np.bool_)),
            "outermost_operator": trace.strings.take(outer[groups.first]),
            "module": module_names(trace, module[groups.first]),
            "blocks": pa.array(groups.count()),
            "live_bytes": pa.array(size),
        }
    )
    rest = total - int(size.sum())
    if rest:
        older = blocks.bytes[blocks.live(at) & (blocks.allocation == MISSING)]
        # Their number is known only if all of them are released in the trace.
        known = len(older) if int(older.sum()) == rest else None
        whose = BEFORE if rest > 0 else LOST
        row = {"name": [whose], "outermost_operator": [None], "module": [None], "blocks": [known], "live_bytes": [rest]}
        table = pa.concat_tables([table, pa.table(row, schema=table.schema)])
    table = table.append_column("device", pa.array([device.name] * table.num_rows, pa.string()))
    return Live(table, total)


_LIVE_KEYS = ("name", "outermost_operator", "module", "device", "blocks", "live_bytes")


def live_frame(found: Sequence[Live], when: str) -> Frame:
    """Returns what was live at the peak, or at the chosen moment."""
    schema = pa.schema(
        {"name": pa.large_string(), "outermost_operator": pa.large_string(), "module": pa.large_string(),
         "blocks": pa.int64(), "live_bytes": pa.int64(), "device": pa.string()}
    )  # fmt: skip
    table = pa.concat_tables([schema.empty_table(), *(live.table for live in found)])
    order = [(key, "ascending") for key in ("device", "name", "outermost_operator", "module")]
    return Frame(
        name="memory_peak",
        title=f"Live {when}",
        columns=METRICS.columns(*_LIVE_KEYS, hidden=_hidden(found), share=("live_bytes",)),
        data=table.sort_by([("live_bytes", "descending"), *order]),
        row_key=("device", "module", "outermost_operator", "name"),
        name_column="name",
        sort=Sort("live_bytes", True),
    )
