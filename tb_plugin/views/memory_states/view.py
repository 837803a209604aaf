"""Memory of a rank's parameters, gradients and optimizer state."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.memory.categories import block_categories
from tb_plugin.analysis.memory.owners import owners_of
from tb_plugin.analysis.memory.trace_devices import devices_of
from tb_plugin.analysis.replicas import states_frame
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.snapshot.table import NEVER
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.memory_states import VIEW


class MemoryStates(DeclaredView, entry=VIEW):
    """Memory by training state, on the accelerator with the most allocator events, else on the host."""

    selects = "steps"

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Returns the blocks of each training state by size; empty if categories are unknown."""
        frame = _frame(trace)
        return Part(select_rows(trace, params.steps).coverage, {}, {frame.name: frame}, layout=(frame.name,))


def _frame(trace: TraceTable) -> Frame:
    none = np.empty(0, np.int64)
    devices = devices_of(trace)
    # Accelerators come first.
    device = max(devices, key=lambda one: (not one.is_host, len(one.record)), default=None)
    if device is None or not device.has_addresses:
        return states_frame(none, none, none, none)
    found = block_categories(trace, owners_of(trace), device)
    if not found.any_pass:
        return states_frame(none, none, none, none)
    blocks = device.blocks
    # Blocks with contradicting events may have been released.
    is_certain = (blocks.allocation == MISSING) | blocks.is_certain | (blocks.freed != NEVER)
    return states_frame(
        found.of[is_certain], blocks.begin[is_certain], blocks.freed[is_certain], blocks.size[is_certain]
    )
