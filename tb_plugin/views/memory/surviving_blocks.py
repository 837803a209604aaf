"""Blocks that outlive the step that allocated them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.memory.blocks import Blocks
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.tables import MemoryScene, hidden_of, module_names, owner_names
from tb_plugin.analysis.memory.trace_devices import Device
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Sort
from tb_plugin.views.memory.block_rows import outlives_step


class StepBlocks(msgspec.Struct, frozen=True, eq=False):
    """Blocks that were allocated in a step of the window, if their lives are certain."""

    event: Int64
    """Index of the allocation among all memory events of the trace."""
    step: Int64
    bytes: Int64
    outlives: Bool
    stays: Bool
    owner: Int64


def owned_blocks(scene: MemoryScene, device: Device) -> Blocks:
    """Returns the blocks of a device. Owners are numbers of distinct operators, modules and Python lines."""
    blocks, trace = device.blocks, scene.trace
    known = np.flatnonzero((blocks.allocation != MISSING) & blocks.is_certain)
    event = device.record[blocks.allocation[known]]
    keys = (scene.owners.names(trace, event), scene.owners.modules(trace, event), scene.origins.frame.of[event])
    owner = np.full(len(blocks.size), MISSING)
    owner[known] = group(*keys).of
    return replace(blocks, owner=owner)


def step_blocks(scene: MemoryScene, device: Device) -> StepBlocks:
    blocks, step_of = owned_blocks(scene, device), scene.origins.step.of
    blocks = blocks.take(np.flatnonzero(blocks.owner != MISSING))
    event = device.record[blocks.allocation]
    inside = np.flatnonzero((step_of[event] != MISSING) & scene.window.holds(device.time_ns[blocks.allocation]))
    blocks, event = blocks.take(inside), event[inside]
    released = np.append(device.time_ns, MISSING)[blocks.release]
    return StepBlocks(
        event=event,
        step=step_of[event].astype(np.int64),
        bytes=blocks.size,
        outlives=outlives_step(scene.trace, released, step_of[event]),
        stays=blocks.release == MISSING,
        owner=blocks.owner,
    )


_OWNER = ("name", "module", "allocation_frame")
_SUMS = ("kept_blocks", "kept_bytes", "kept_to_end_blocks", "kept_to_end_bytes")


def step_frame(scene: MemoryScene, devices: Sequence[Device], every: Sequence[StepBlocks]) -> Frame:
    text = pa.large_string()
    schema = pa.schema(
        {"allocation_step": text, **dict.fromkeys(_OWNER, text), "device": pa.string(),
         **dict.fromkeys(_SUMS, pa.int64())}
    )  # fmt: skip
    found = [_survivors(scene, device, blocks, schema) for device, blocks in zip(devices, every, strict=True)]
    keys = scene.origins.recorded(("allocation_step", *_OWNER, "device"))
    order = [("kept_to_end_bytes", "descending"), ("kept_bytes", "descending"), *((key, "ascending") for key in keys)]
    recorded = scene.origins.recorded(("name", "allocation_step", "module", "allocation_frame", "device", *_SUMS))
    columns = METRICS.columns(*recorded, hidden=hidden_of(devices), share=("kept_bytes",))
    data = sorted_by(pa.concat_tables([schema.empty_table(), *found]), order)
    row_key = ("device", *(key for key in keys if key != "device"))
    return Frame("memory_steps", "Retained per step", columns, data, row_key, "name", Sort("kept_to_end_bytes", True))


def _survivors(scene: MemoryScene, device: Device, of: StepBlocks, schema: pa.Schema) -> pa.Table:
    kept = np.flatnonzero(of.outlives)
    groups = group(of.step[kept], of.owner[kept])
    event, step = of.event[kept][groups.first], of.step[kept][groups.first]
    stays = of.stays[kept].astype(np.int64)
    # Steps after the last one, or after a part of a trace, may release it.
    unknown = (step == len(scene.trace.steps.label) - 1) | (not scene.window.is_end_recorded)
    data = {
        "allocation_step": scene.origins.step.texts_of(step),
        "name": owner_names(scene.trace, scene.owners, event, np.ones(len(groups), np.bool_)),
        "module": module_names(scene.trace, scene.owners.modules(scene.trace, event)),
        "allocation_frame": scene.origins.frame.take(event),
        "device": pa.repeat(device.name, len(groups)),
        "kept_blocks": pa.array(groups.count()),
        "kept_bytes": pa.array(groups.sum(of.bytes[kept])),
        "kept_to_end_blocks": pa.array(groups.sum(stays), mask=unknown),
        "kept_to_end_bytes": pa.array(groups.sum(of.bytes[kept] * stays), mask=unknown),
    }
    return pa.table(data, schema=schema)
