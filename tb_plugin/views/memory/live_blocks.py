"""Live memory at a given time, by operator and origin."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.tables import BEFORE, LOST, MemoryScene, hidden_of, module_names, owner_names
from tb_plugin.analysis.memory.trace_devices import Device
from tb_plugin.lib.groupby import group
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Sort

_LIVE = pa.schema(
    {"name": pa.large_string(), "outermost_operator": pa.large_string(), "module": pa.large_string(),
     "allocation_frame": pa.large_string(), "allocation_phase": pa.large_string(), "blocks": pa.int64(),
     "live_bytes": pa.int64()}
)  # fmt: skip


class Live(msgspec.Struct, frozen=True, eq=False):
    """Live bytes of a device after one event, by operator and origin. The bytes of all rows add up to ``total``."""

    table: pa.Table
    total: int


def live_at(scene: MemoryScene, device: Device, at: int) -> Live:
    total = device.level(at)
    blocks = device.blocks
    alive = np.flatnonzero(blocks.live_at(at))
    if not (device.has_addresses and device.has_totals):
        alive, total = alive[:0], 0
    event = device.record[blocks.allocation[alive]]
    owners, trace = scene.owners, scene.trace
    name, outer, module = (of(trace, event) for of in (owners.names, owners.outermost, owners.modules))
    frame, phase = scene.origins.frame.of[event], scene.origins.phase.of[event]
    groups = group(name, outer, module, frame, phase)
    size = groups.sum(blocks.size[alive])
    first = groups.first
    table = pa.table(
        {
            "name": owner_names(trace, owners, event[first], np.ones(len(groups), np.bool_)),
            "outermost_operator": trace.strings.take(outer[first]),
            "module": module_names(trace, module[first]),
            "allocation_frame": scene.origins.frame.texts_of(frame[first]),
            "allocation_phase": scene.origins.phase.texts_of(phase[first]),
            "blocks": pa.array(groups.count()),
            "live_bytes": pa.array(size),
        },
        schema=_LIVE,
    )
    rest = total - int(size.sum())
    if rest:
        older = blocks.size[blocks.live(at) & (blocks.allocation == MISSING)]
        # Their number is known only if all of them are released in the trace.
        known = len(older) if int(older.sum()) == rest else None
        whose = BEFORE if rest > 0 else LOST
        row = {**{key: [None] for key in _LIVE.names}, "name": [whose], "blocks": [known], "live_bytes": [rest]}
        table = pa.concat_tables([table, pa.table(row, schema=_LIVE)])
    table = table.append_column("device", pa.array([device.name] * table.num_rows, pa.string()))
    return Live(table, total)


def live_frame(scene: MemoryScene, found: Sequence[Live], when: str) -> Frame:
    keys = ("name", "outermost_operator", "module", "allocation_frame", "allocation_phase")
    empty = _LIVE.append(pa.field("device", pa.string())).empty_table()
    order = [("live_bytes", "descending"), *((key, "ascending") for key in ("device", *keys))]
    columns = METRICS.columns(
        *scene.origins.recorded((*keys, "device", "blocks", "live_bytes")),
        hidden=hidden_of(found),
        share=("live_bytes",),
    )
    data = sorted_by(pa.concat_tables([empty, *(one.table for one in found)]), order)
    row_key = ("device", *scene.origins.recorded(reversed(keys)))
    return Frame("memory_peak", f"Live {when}", columns, data, row_key, "name", Sort("live_bytes", True))
