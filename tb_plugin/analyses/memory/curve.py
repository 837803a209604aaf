"""The curve of a device and its highest point, at the level of detail that a screen resolves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.device_memory.records import Device
from tb_plugin.analyses.device_memory.window import MemoryRange
from tb_plugin.analyses.memory.metrics import METRICS
from tb_plugin.payloads import Line, Series
from tb_plugin.trace.intervals import subtract, union
from tb_plugin.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


def curve_of(device: Device, window: MemoryRange, width: int) -> Series:
    """Returns allocated and reserved bytes over the window: every extreme of every pixel column is kept.

    What does not count (the time between chosen steps that are not adjacent) is null at both of its ends.
    """
    inside = np.flatnonzero(window.holds(device.time_ns))
    kept = inside[_detail(device, inside, window, width)]
    parts = window.parts
    gaps = subtract(union(np.array([window.start_ns]), np.array([window.end_ns])), parts)
    # At one moment: the end of a gap, the level at the begin of a part, its events, its end, the begin of a gap.
    groups = [
        (gaps.end, None),
        (parts.start, device.each_at(parts.start - 1)),
        (device.time_ns[kept], kept),
        (np.minimum(parts.end, window.end_ns), device.each_at(parts.end - 1)),
        (gaps.start, None),
    ]
    time = np.concatenate([times for times, _ in groups])
    at = np.concatenate([np.zeros(len(times), np.int64) if where is None else where for times, where in groups])
    drawn = np.concatenate([np.full(len(times), where is not None) for times, where in groups])
    order = np.argsort(time, kind="stable")
    time, at, drawn = time[order], at[order], drawn[order]
    level = METRICS.metric("allocated_bytes" if device.has_totals else "change_bytes")
    lines = [Line(level, "kernel", _values(np.append(device.allocated, device.before)[at], drawn))]
    if (device.reserved > 0).any():
        reserved = device.reserved[np.maximum(at, 0)]  # before the first event as after it: nothing else is known
        lines.append(Line(METRICS.metric("reserved_bytes"), "memcpy", _values(reserved, drawn & (reserved != MISSING))))
    return Series("curve", "Memory over time", device.name, METRICS.metric("moment_ns"), time.tolist(), lines, "lines")


def _values(values: Int64, known: npt.NDArray[np.bool_]) -> list[int | float | None]:
    shown = values.astype(object)
    shown[~known] = None
    found: list[int | float | None] = shown.tolist()
    return found


def _detail(device: Device, inside: Int64, window: MemoryRange, width: int) -> Int64:
    """Positions to draw: first, last, lowest and highest of each of ``width`` columns, for both curves."""
    if len(inside) <= 4 * width:
        return np.arange(len(inside))
    span = max(1, window.end_ns - window.start_ns)
    # Floats would do for the columns, but integers cannot surprise: spans of days times a width still fit.
    column = (device.time_ns[inside] - window.start_ns) // (span // width + 1)
    first = np.flatnonzero(np.concatenate(([True], column[1:] != column[:-1])))
    of = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(inside))))
    chosen = [first, np.append(first[1:], len(inside)) - 1]
    for values in (device.allocated[inside], device.reserved[inside]):
        for extreme in (np.minimum, np.maximum):
            hits = np.flatnonzero(values == extreme.reduceat(values, first)[of])
            chosen.append(hits[np.concatenate(([True], of[hits][1:] != of[hits][:-1]))])
    return np.unique(np.concatenate(chosen))
