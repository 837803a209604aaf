"""Memory peaks of a device in the requested window or steps."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.base import Params, int_param
from tb_plugin.analysis.memory.trace_devices import Device
from tb_plugin.analysis.selection import chosen_steps
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.intervals import Ranges, contains, intersect, union
from tb_plugin.model.snapshot.table import NEVER
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable


class MemoryRange(msgspec.Struct, frozen=True, eq=False):
    """A requested time window. ``parts`` contains the entire window, or the selected steps."""

    start_ns: int
    end_ns: int
    parts: Ranges
    is_end_recorded: bool = True
    """Whether events after the time window are loaded too. False for a trace that was opened as a window."""

    def holds(self, times: Int64) -> Bool:
        return contains(self.parts, times)

    @property
    def begins(self) -> Int64:
        """Returns the start of each part, or the start of the window if there are no parts."""
        return self.parts.start if len(self.parts) else np.array([self.start_ns])


def window_of(trace: TraceTable, params: Params) -> MemoryRange:
    """Returns the requested time window. Raises BadRequest if the end of the window precedes its start."""
    times = np.concatenate((trace.memory.time_ns, trace.totals.time_ns))
    first = min(trace.coverage.start_ns, int(times.min(initial=trace.coverage.start_ns)))
    last = max(trace.coverage.end_ns, int(times.max(initial=trace.coverage.end_ns)))
    start, end, steps = first, last, None
    if params.steps is not None:
        chosen = chosen_steps(trace, params.steps)
        steps = union(trace.steps.host_start_ns[chosen], trace.steps.host_end_ns[chosen])
        if len(steps):
            start, end = int(steps.start[0]), int(steps.end[-1])
    requested = [int_param(params, key) for key in ("start_ns", "end_ns")]
    start = start if requested[0] is None else min(max(requested[0], first), last)
    end = end if requested[1] is None else min(max(requested[1], first), last)
    if end < start:
        raise BadRequest("The window ends before it starts.", "end_ns", f"start_ns={start}, end_ns={end}.")
    # The end is inclusive, so that the last event of a trace counts. The end of a step is exclusive.
    parts = union(np.array([start]), np.array([end + 1]))
    return MemoryRange(start, end, parts if steps is None else intersect(parts, steps), trace.coverage.full is None)


class Peak(msgspec.Struct, frozen=True):
    at: int
    """Index of the allocator event that caused the peak; -1 if the peak was reached before the first event."""
    time_ns: int
    value: int
    from_before: bool
    """Whether memory is already at the peak level at the start of the window or of one of its steps."""


def peak_of(device: Device, window: MemoryRange) -> Peak:
    """Returns the earliest peak of allocated memory."""
    return _highest(device, window, np.append(device.allocated, device.before))


def peak_without(device: Device, window: MemoryRange, some: Bool) -> Peak:
    """Returns the peak of allocated memory if the blocks in the mask ``some`` had not been allocated."""
    blocks = device.blocks
    change = np.zeros(len(device.record) + 1, np.int64)
    np.add.at(change, blocks.begin[some], blocks.size[some])
    np.subtract.at(change, np.where(blocks.freed == NEVER, -1, blocks.freed)[some], blocks.size[some])
    rest = device.allocated - np.cumsum(change[:-1])
    return _highest(device, window, np.append(rest, device.before))


def reserved_peak_of(device: Device, window: MemoryRange) -> Peak | None:
    """Returns the earliest peak of reserved memory, None if reserved memory is not recorded."""
    peak = _highest(device, window, np.append(device.reserved, MISSING))
    return None if peak.value == MISSING else peak


def _highest(device: Device, window: MemoryRange, values: Int64) -> Peak:
    """Returns the earliest peak of ``values``: one entry per event, and one for the time before the first event."""
    inside = np.flatnonzero(window.holds(device.time_ns))
    begins = window.begins
    # If a part starts at the peak level, report the event before it, because that event has an operator.
    at = np.concatenate((inside, device.each_at(begins - 1)))
    best = int(np.argmax(values[at]))
    time = np.concatenate((device.time_ns[inside], begins))[best]
    return Peak(int(at[best]), int(time), int(values[at[best]]), best >= len(inside))
