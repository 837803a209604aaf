"""The table of blocks: who got each, from where, and how long it lived."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analyses.base import Frame
from tb_plugin.analyses.memory.metrics import METRICS
from tb_plugin.analyses.memory.origins import ORIGINS, Origins
from tb_plugin.analyses.memory.records import Device, Owners
from tb_plugin.analyses.memory.tables import hidden_of, module_names, owner_names
from tb_plugin.analyses.memory.window import MemoryRange
from tb_plugin.payloads import Sort
from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

STATES = ("released", "released later", "never released", "allocated before", "unpaired")
STATES_OF_PART = (*STATES[:2], "released later or never", *STATES[3:])
"""States in a trace that was opened as a window: what comes after it was not read."""
RELEASED, LATER, KEPT, OLDER, UNPAIRED = range(5)


def every_block(trace: TraceTable, owners: Owners, origins: Origins, devices: Sequence[Device]) -> pa.Table:
    """Returns all blocks of some devices, the largest first: what ``block_frame`` chooses from, and ``paired``."""
    found = [_blocks(trace, owners, origins, device) for device in devices]
    empty = pa.table({key: pa.array([], _TYPES.get(key, pa.int64())) for key in (*_STANDING, "paired")})
    order = [("block_bytes", "descending"), ("device", "ascending"), ("block_number", "ascending")]
    return pa.concat_tables([empty, *found]).sort_by(order).combine_chunks()


def block_frame(window: MemoryRange, origins: Origins, blocks: pa.Table, devices: Sequence[Device]) -> Frame:
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
        columns=METRICS.columns(
            *origins.told(_BLOCK_KEYS),
            hidden=("block_number", "module", *ORIGINS, "outlives_step", *hidden_of(devices)),
        ),
        data=table.select(_BLOCK_KEYS),
        row_key=("device", "block_number"),
        name_column="name",
        sort=Sort("block_bytes", True),
    )


_BLOCK_KEYS = (
    "name", "caller", "outermost_operator", "module", *ORIGINS, "device", "block_bytes", "allocated_at_ns",
    "released_at_ns", "lifetime_ns", "block_state", "outlives_step", "block_number",
)  # fmt: skip
_STANDING = tuple(key for key in _BLOCK_KEYS if key != "block_state")
"""What a block has whatever the window."""
_TYPES = {
    "name": pa.large_string(),
    "caller": pa.large_string(),
    "outermost_operator": pa.large_string(),
    "module": pa.large_string(),
    **dict.fromkeys(ORIGINS, pa.large_string()),
    "device": pa.string(),
    "outlives_step": pa.bool_(),
    "paired": pa.bool_(),
}


def _blocks(trace: TraceTable, owners: Owners, origins: Origins, device: Device) -> pa.Table:
    blocks = device.blocks
    has_allocation, has_release = blocks.allocation != MISSING, blocks.release != MISSING
    begin, end = _at(device.time_ns, blocks.allocation), _at(device.time_ns, blocks.release)
    # A release that stands alone is its own operator's.
    known = has_allocation | ~blocks.paired
    event = _at(device.record, np.where(has_allocation, blocks.allocation, blocks.release))
    step = np.where(has_allocation, origins.step.of[event], MISSING)
    data = {
        "name": owner_names(trace, owners, event, known),
        "caller": trace.strings.take(np.where(known, owners.callers(trace, event), MISSING)),
        "outermost_operator": trace.strings.take(np.where(known, owners.outermost(trace, event), MISSING)),
        "module": module_names(trace, np.where(known, owners.modules(trace, event), MISSING)),
        "allocation_frame": origins.frame.texts_of(np.where(known, origins.frame.of[event], MISSING)),
        "allocation_phase": origins.phase.texts_of(np.where(known, origins.phase.of[event], MISSING)),
        "allocation_step": origins.step.texts_of(step),
        "outlives_step": pa.array(
            outlives_step(trace, blocks.release, step, end), mask=(step == MISSING) | ~blocks.paired
        ),
        "device": pa.repeat(device.name, len(event)),
        "block_bytes": pa.array(blocks.bytes),
        "allocated_at_ns": pa.array(begin, mask=~has_allocation),
        "released_at_ns": pa.array(end, mask=~has_release),
        "lifetime_ns": pa.array(end - begin, mask=~(has_allocation & has_release)),
        "block_number": pa.array(np.arange(len(event))),
        "paired": pa.array(blocks.paired),
    }
    return pa.table({key: data[key] for key in (*_STANDING, "paired")})


def outlives_step(trace: TraceTable, release: Int64, step: Int32, released_ns: Int64) -> Bool:
    """Returns whether each block was still there when the step ended in which it was allocated.

    ``release`` is -1 where none was recorded, ``step`` a position among the trace's steps.
    """
    ends = np.append(trace.steps.host_end_ns, 0)[step]
    lasts: Bool = (release == MISSING) | (released_ns >= ends)
    return lasts


def _valid(values: pa.ChunkedArray) -> Bool:
    flags: Bool = pc.is_valid(values).to_numpy()
    return flags


def _at(values: Int64, position: Int64) -> Int64:
    return np.append(values, 0)[position]
