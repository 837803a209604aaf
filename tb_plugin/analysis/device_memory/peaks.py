"""Memory peaks of a device in a window."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.device_memory.records import Device
from tb_plugin.analysis.device_memory.window import MemoryRange
from tb_plugin.model.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class Peak(msgspec.Struct, frozen=True):
    at: int
    """Index of the allocator event that caused the peak; -1 if the peak was reached before the first event."""
    time_ns: int
    value: int
    from_before: bool
    """Whether memory use is already at the peak level at the start of the window or at the start of one of its
    steps.
    """


def peak_of(device: Device, window: MemoryRange) -> Peak:
    """Returns the peak of allocated memory. If several peaks are equally high, returns the earliest peak."""
    return _highest(device, window, np.append(device.allocated, device.before))


def peak_without(device: Device, window: MemoryRange, some: Bool) -> Peak:
    """Returns the peak of allocated memory if the blocks in the mask ``some`` had not been allocated."""
    blocks = device.blocks
    change = np.zeros(len(device.record) + 1, np.int64)
    np.add.at(change, blocks.begin[some], blocks.bytes[some])
    np.subtract.at(change, blocks.end[some], blocks.bytes[some])  # the last entry is for blocks without an end
    rest = device.allocated - np.cumsum(change[:-1])
    return _highest(device, window, np.append(rest, device.before))


def reserved_peak_of(device: Device, window: MemoryRange) -> Peak | None:
    """Returns the peak of reserved memory, None if reserved memory is not recorded.

    If several peaks are equally high, returns the earliest peak.
    """
    peak = _highest(device, window, np.append(device.reserved, MISSING))
    return None if peak.value == MISSING else peak


def _highest(device: Device, window: MemoryRange, values: Int64) -> Peak:
    """Returns the peak of ``values``, which contains one entry per event.

    The last entry is for the time before the first event.
    """
    inside = np.flatnonzero(window.holds(device.time_ns))
    begins = window.begins
    # If a part starts at the peak level, report the event before it, because that event has an operator.
    at = np.concatenate((inside, device.each_at(begins - 1)))
    best = int(np.argmax(values[at]))
    time = np.concatenate((device.time_ns[inside], begins))[best]
    return Peak(int(at[best]), int(time), int(values[at[best]]), best >= len(inside))
