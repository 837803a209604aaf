"""Complete tables of allocator events and blocks for the Python API."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.allocator import device_name
from tb_plugin.analysis.base import Params
from tb_plugin.analysis.snapshot.blocks import block_table, event_table
from tb_plugin.analysis.snapshot.device_levels import devices_of, levels_of_device
from tb_plugin.errors import NotFoundError
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.trace.table import TraceTable


def events_of(model: object, where: str) -> pa.Table:
    if isinstance(model, Snapshot):
        parts = []
        for device in devices_of(model):
            table = event_table(device)
            parts.append(table.add_column(0, "device", pa.repeat(device.name, len(table))))
        return pa.concat_tables(parts) if parts else pa.table({})
    if isinstance(model, TraceTable):
        memory = model.memory
        names = [
            device_name(*each) for each in zip(memory.device_type.tolist(), memory.device_id.tolist(), strict=True)
        ]
        columns = ("time_ns", "bytes", "address", "total_allocated", "total_reserved")
        return pa.table({"device": pa.array(names, pa.string()), **{c: getattr(memory, c) for c in columns}})
    raise NotFoundError(
        "Only a trace and a memory snapshot have allocator events.", where, "Request its tables instead."
    )


def blocks_of(model: object, where: str, at: int | None, device: str) -> pa.Table:
    """Returns the blocks of a device of a snapshot, or those after event ``at``. Raises NotFoundError or BadRequest."""
    if not isinstance(model, Snapshot):
        do = "For the blocks of a trace, request the table memory_events of the view memory."
        raise NotFoundError("Only a memory snapshot has blocks at every event.", where, do)
    levels = levels_of_device(model, Params(extra=(("device", device),)))
    rows = np.arange(len(levels.block("begin"))) if at is None else levels.live(at)
    return block_table(levels, rows)
