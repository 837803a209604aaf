"""Rows of the blocks table on the Memory page."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import astuple

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.origins import ORIGINS, Origins
from tb_plugin.analysis.memory.owners import Owners
from tb_plugin.analysis.memory.tables import hidden_of, module_names, owner_names
from tb_plugin.analysis.memory.trace_devices import Device
from tb_plugin.analysis.memory.window import MemoryRange
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Sort

STATES = ("released", "released later", "never released", "allocated before", "unpaired")
# A trace that was opened as a window: later events were not read.
STATES_OF_PART = (*STATES[:2], "released later or never", *STATES[3:])
RELEASED, LATER, KEPT, OLDER, UNPAIRED = range(5)


def every_block(trace: TraceTable, owners: Owners, origins: Origins, devices: Sequence[Device]) -> pa.Table:
    found = [
        _numbers(trace, device, place) for place, device in enumerate(sorted(devices, key=lambda device: device.name))
    ]
    none = _Numbers(*(np.empty(0, np.int64) for _ in _Numbers.__struct_fields__))
    columns = zip(*(astuple(one) for one in (none, *found)), strict=True)
    every = _Numbers(*map(np.concatenate, columns))
    # Texts are put in order last, so each is fetched once.
    order = np.lexsort((every.number, every.device, -every.bytes))
    names = sorted(device.name for device in devices)
    return _table(trace, owners, origins, _Numbers(*(column[order] for column in astuple(every))), names)


def block_frame(window: MemoryRange, origins: Origins, blocks: pa.Table, devices: Sequence[Device]) -> Frame:
    """Returns the rows of ``blocks`` (from ``every_block``) that ``devices`` allocated or released in the window."""
    has_allocation, has_release = (_valid(blocks[key]) for key in ("allocated_at_ns", "released_at_ns"))
    begin, end = (pc.fill_null(blocks[key], 0).to_numpy() for key in ("allocated_at_ns", "released_at_ns"))
    begins, ends = has_allocation & window.holds(begin), has_release & window.holds(end)
    paired = blocks["paired"].to_numpy()
    state = np.select([~paired, begins & ends, ends, has_release], [UNPAIRED, RELEASED, OLDER, LATER], KEPT)
    ours = pc.is_in(blocks["device"], pa.array([device.name for device in devices], pa.string()))
    chosen = np.flatnonzero((begins | ends) & ours.to_numpy())
    states = pa.array(STATES if window.is_end_recorded else STATES_OF_PART, pa.string())
    table = blocks if len(chosen) == blocks.num_rows else blocks.take(chosen)
    table = table.append_column("block_state", states.take(pa.array(state[chosen])))
    hidden = ("block_number", "module", *ORIGINS, "pooled_at_ns", "outlives_step", *hidden_of(devices))
    columns = METRICS.columns(*_recorded_columns(blocks, origins), hidden=hidden)
    data, key = table.select(_BLOCK_KEYS), ("device", "block_number")
    return Frame("memory_events", "Memory blocks", columns, data, key, "name", Sort("block_bytes", True))


_BLOCK_KEYS = (
    "name", "caller", "outermost_operator", "module", *ORIGINS, "device", "block_bytes", "signed_bytes", "allocated_at_ns",
    "released_at_ns", "pooled_at_ns", "lifetime_ns", "block_state", "outlives_step", "block_number",
)  # fmt: skip
_STATED = ("pooled_at_ns", "signed_bytes")
_STANDING = tuple(key for key in _BLOCK_KEYS if key != "block_state")


class _Numbers(msgspec.Struct, frozen=True, eq=False):
    device: Int64
    number: Int64
    event: Int64
    begin: Int64
    """Allocation time in nanoseconds; -1 = not recorded."""
    end: Int64
    bytes: Int64
    paired: Int64
    pooled: Int64
    """Time in nanoseconds when the memory returned to the pool; -1 = unknown."""


def _recorded_columns(blocks: pa.Table, origins: Origins) -> list[str]:
    empty = {key for key in _STATED if blocks[key].null_count == blocks.num_rows}
    return [key for key in origins.recorded(_BLOCK_KEYS) if key not in empty]


def _numbers(trace: TraceTable, device: Device, place: int) -> _Numbers:
    blocks, pooled = device.blocks, trace.reported_memory.pooled_ns
    has_allocation = blocks.allocation != MISSING
    return _Numbers(
        device=np.full(len(blocks.size), place),
        number=np.arange(len(blocks.size)),
        event=_take(device.record, np.where(has_allocation, blocks.allocation, blocks.release)),
        begin=_take(device.time_ns, blocks.allocation),
        end=_take(device.time_ns, blocks.release),
        bytes=blocks.size,
        paired=blocks.is_certain.astype(np.int64),
        pooled=_take(pooled, _take(device.record, blocks.release))
        if len(pooled)
        else np.full(len(blocks.size), MISSING),
    )


def _table(trace: TraceTable, owners: Owners, origins: Origins, of: _Numbers, names: Sequence[str]) -> pa.Table:
    event, paired = of.event, of.paired.astype(np.bool_)
    has_allocation, has_release = of.begin != MISSING, of.end != MISSING
    # An unpaired release belongs to its own operator.
    known = has_allocation | ~paired
    step = np.where(has_allocation, origins.step.of[event], MISSING)
    lasts = outlives_step(trace, of.end, step)
    data = {
        "name": owner_names(trace, owners, event, known),
        "caller": trace.strings.take(np.where(known, owners.callers(trace, event), MISSING)),
        "outermost_operator": trace.strings.take(np.where(known, owners.outermost(trace, event), MISSING)),
        "module": module_names(trace, np.where(known, owners.modules(trace, event), MISSING)),
        "allocation_frame": origins.frame.texts_of(np.where(known, origins.frame.of[event], MISSING)),
        "allocation_phase": origins.phase.texts_of(np.where(known, origins.phase.of[event], MISSING)),
        "allocation_step": origins.step.texts_of(step),
        "outlives_step": pa.array(lasts, mask=(step == MISSING) | ~paired),
        "device": pa.array(names, pa.string()).take(pa.array(of.device)),
        "block_bytes": pa.array(of.bytes),
        "allocated_at_ns": pa.array(of.begin, mask=~has_allocation),
        "released_at_ns": pa.array(of.end, mask=~has_release),
        "lifetime_ns": pa.array(of.end - of.begin, mask=~(has_allocation & has_release)),
        "block_number": pa.array(of.number),
        "pooled_at_ns": pa.array(of.pooled, mask=of.pooled == MISSING),
        "signed_bytes": _recorded(trace, of),
        "paired": pa.array(paired),
    }
    return pa.table({key: data[key] for key in (*_STANDING, "paired")})


def _recorded(trace: TraceTable, of: _Numbers) -> pa.Array:
    older = of.begin == MISSING
    if not len(trace.reported_memory.name) or not older.any():
        return pa.nulls(len(of.bytes), pa.int64())
    return pa.array(np.where(older, -of.bytes, of.bytes))


def outlives_step(trace: TraceTable, released_ns: Int64, step: Int32) -> Bool:
    """Returns whether each block was live at the end of its step. ``released_ns`` is -1 without a release."""
    lasts: Bool = (released_ns == MISSING) | (released_ns >= np.append(trace.steps.host_end_ns, 0)[step])
    return lasts


def _valid(values: pa.ChunkedArray) -> Bool:
    flags: Bool = pc.is_valid(values).to_numpy()
    return flags


def _take(values: Int64, position: Int64) -> Int64:
    return np.append(values, MISSING)[position]
