"""The curve of a device and its highest point, at the level of detail that a screen resolves."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.device_memory.records import Device
from tb_plugin.analysis.device_memory.window import MemoryRange
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Line, Series
from tb_plugin.views.memory.outline import detail_of, outline_of, values_of


def curve_of(device: Device, window: MemoryRange, width: int) -> Series:
    """Returns allocated and reserved bytes over the window: every extreme of every pixel column is kept.

    What does not count (the time between chosen steps that are not adjacent) is null at both of its ends.
    """
    inside = np.flatnonzero(window.holds(device.time_ns))
    levels = (device.allocated[inside], device.reserved[inside])
    drawn = outline_of(device.time_ns, window, inside[detail_of(device.time_ns[inside], levels, window, width)])
    at = drawn.at
    level = METRICS.metric("allocated_bytes" if device.has_totals else "change_bytes")
    lines = [Line(level, "kernel", values_of(np.append(device.allocated, device.before)[at], drawn.known))]
    if (device.reserved > 0).any():
        reserved = device.reserved[np.maximum(at, 0)]  # before the first event as after it: nothing else is known
        known = drawn.known & (reserved != MISSING)
        lines.append(Line(METRICS.metric("reserved_bytes"), "memcpy", values_of(reserved, known)))
    x = drawn.time_ns.tolist()
    return Series("curve", "Memory over time", device.name, METRICS.metric("moment_ns"), x, lines, "lines")
