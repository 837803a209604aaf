"""The curve of a device and its highest point, at the level of detail that a screen resolves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.memory.records import Device
from tb_plugin.analyses.memory.window import Window
from tb_plugin.analyses.metrics import metric
from tb_plugin.payloads import Line, Series
from tb_plugin.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Peak:
    """The highest point of a window: position of its event (-1: before the first) and the time."""

    at: int
    time_ns: int
    allocated: int
    reserved: int | None
    """Bytes reserved at that moment."""
    from_before: bool
    """The window began at its highest point: no event of the window led there."""


def peak_of(device: Device, window: Window) -> Peak:
    """The first moment at which most was allocated."""
    inside = np.flatnonzero(window.holds(device.time_ns))
    entering = device.at(window.start_ns - 1)
    best = int(inside[np.argmax(device.allocated[inside])]) if len(inside) else entering
    from_before = not len(inside)
    if entering >= 0 and device.level(entering) > device.level(best):
        best, from_before = entering, True
    reserved = int(device.reserved[best]) if best >= 0 else MISSING
    time = window.start_ns if from_before else int(device.time_ns[best])
    return Peak(best, time, device.level(best), None if reserved == MISSING else reserved, from_before)


def curve_of(device: Device, window: Window, width: int) -> Series:
    """Allocated and reserved bytes over the window: every extreme of every pixel column is kept."""
    inside = np.flatnonzero((device.time_ns >= window.start_ns) & (device.time_ns <= window.end_ns))
    kept = inside[_detail(device, inside, window, width)]
    entering = device.at(window.start_ns - 1)
    last = int(inside[-1]) if len(inside) else entering
    x = [window.start_ns, *device.time_ns[kept].tolist(), window.end_ns]
    lines = []
    if device.has_totals:
        values = [device.level(entering), *device.allocated[kept].tolist(), device.level(last)]
        lines.append(Line(metric("allocated_bytes"), "kernel", values))
    else:
        values = [device.level(entering), *device.allocated[kept].tolist(), device.level(last)]
        lines.append(Line(metric("change_bytes"), "kernel", values))
    if (device.reserved > 0).any():
        at = [max(entering, 0), *kept.tolist(), max(last, 0)]
        reserved = [None if value == MISSING else value for value in device.reserved[at].tolist()]
        lines.append(Line(metric("reserved_bytes"), "memcpy", reserved))
    subtitle = f"{device.name} · {len(inside)}"
    return Series("curve", "Memory over time", subtitle, metric("moment_ns"), x, lines, "lines")


def _detail(device: Device, inside: Int64, window: Window, width: int) -> Int64:
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
