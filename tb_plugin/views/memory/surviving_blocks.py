"""Blocks that outlive the step that allocated them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.device_memory.records import Device
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.tables import Scene, hidden_of, module_names, owner_names
from tb_plugin.lib.groupby import Groups, group
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Sort
from tb_plugin.views.memory.blocks import outlives_step

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]


class StepBlocks(msgspec.Struct, frozen=True, eq=False):
    """Blocks of a device that were allocated in a step of the window, grouped by owner.

    Blocks without an address or with contradicting events are excluded, because the lifetime of such blocks is
    unknown.
    """

    block: Int64
    """Index of each block in the list of the device's blocks."""
    event: Int64
    """Index of the allocation among all memory events of the trace."""
    step: Int32
    bytes: Int64
    outlives: Bool
    stays: Bool
    lasted: Int64
    """Number of steps that started before the block's release, or before the end of the trace."""
    owner: Groups
    """Blocks grouped by operator, module and Python line."""


def step_blocks(scene: Scene, device: Device) -> StepBlocks:
    """Returns the blocks allocated in the steps of the window."""
    blocks, trace, origins = device.blocks, scene.trace, scene.origins
    known = np.flatnonzero((blocks.allocation != MISSING) & blocks.paired)
    time = device.time_ns[blocks.allocation[known]]
    event = device.record[blocks.allocation[known]]
    inside = (origins.step.of[event] != MISSING) & scene.window.holds(time)
    block, event = known[inside], event[inside]
    step, end = origins.step.of[event], blocks.release[block]
    starts = trace.steps.host_start_ns
    released = np.append(device.time_ns, MISSING)[end]
    until = np.where(end == MISSING, len(starts), np.searchsorted(starts, released, side="right")) - 1
    keys = (scene.owners.names(trace, event), scene.owners.modules(trace, event), origins.frame.of[event])
    return StepBlocks(
        block=block,
        event=event,
        step=step,
        bytes=blocks.bytes[block],
        outlives=outlives_step(trace, released, step),
        stays=end == MISSING,
        lasted=until - step,
        owner=group(*keys),
    )


_OWNER = ("name", "module", "allocation_frame")
_SUMS = ("kept_blocks", "kept_bytes", "kept_to_end_blocks", "kept_to_end_bytes")


def step_frame(scene: Scene, devices: Sequence[Device], every: Sequence[StepBlocks]) -> Frame:
    """Returns one row per step and owner, with the blocks that outlive their step."""
    text = pa.large_string()
    schema = pa.schema(
        {"allocation_step": text, **dict.fromkeys(_OWNER, text), "device": pa.string(),
         **dict.fromkeys(_SUMS, pa.int64())}
    )  # fmt: skip
    found = [_survivors(scene, device, blocks, schema) for device, blocks in zip(devices, every, strict=True)]
    keys = scene.origins.recorded(("allocation_step", *_OWNER, "device"))
    order = [("kept_to_end_bytes", "descending"), ("kept_bytes", "descending")]
    return Frame(
        name="memory_steps",
        title="Retained per step",
        columns=METRICS.columns(
            *scene.origins.recorded(("name", "allocation_step", "module", "allocation_frame", "device", *_SUMS)),
            hidden=hidden_of(devices),
            share=("kept_bytes",),
        ),
        data=pa.concat_tables([schema.empty_table(), *found]).sort_by([*order, *((key, "ascending") for key in keys)]),
        row_key=("device", *(key for key in keys if key != "device")),
        name_column="name",
        sort=Sort("kept_to_end_bytes", True),
    )


def _survivors(scene: Scene, device: Device, of: StepBlocks, schema: pa.Schema) -> pa.Table:
    kept = np.flatnonzero(of.outlives)
    groups = group(of.step[kept], of.owner.of[kept])
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
