"""Memory curves of a device, reduced to screen resolution."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, Levels
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.lib.arrays import Int64
from tb_plugin.payloads import Line, Series

# Columns of the curve unless the client requests another width.
WIDTH = 800


def curve_of(device: DeviceLevels, levels: Levels, span: tuple[int, int], width: int, by_time: bool) -> Series:
    """Returns the memory levels after each event in ``span``, over event numbers or times, at screen resolution."""
    first, last = span
    events = np.arange(first, last + 1)
    place = np.append(device.time_ns[:1], device.time_ns)[events + 1] if by_time else events
    lines = {
        "allocated_bytes": ("kernel", levels.allocated),
        "active_bytes": ("communication", levels.active),
        "reserved_bytes": ("memcpy", levels.reserved),
        "free_bytes": ("idle", levels.reserved - levels.active),
    }
    inside = [values[first + 1 : last + 2] for _, values in lines.values()]
    kept = detail(place, inside, width)
    x_metric = METRICS.metric("event_ns" if by_time else "event_number")
    drawn = [
        Line(METRICS.metric(key, window="selected part of the history, else all"), color, values[kept].tolist())
        for (key, (color, _)), values in zip(lines.items(), inside, strict=True)
    ]
    return Series("curve", "Memory over time" if by_time else "Memory by event", device.name, x_metric,
                  place[kept].tolist(), drawn, "lines")  # fmt: skip


def detail(place: Int64, lines: Iterable[Int64], width: int, start: int | None = None, end: int | None = None) -> Int64:
    """Returns the indices of the points to draw: the first, last, lowest and highest value of each line in each column.

    ``place`` contains the x values in ascending order. There are ``width`` columns from ``start`` to ``end``, by default
    from the first to the last x value.
    """
    if len(place) <= 4 * width:
        return np.arange(len(place))
    first, last = int(place[0]) if start is None else start, int(place[-1]) if end is None else end
    edges = np.arange(first, last + 1, (last - first) // width + 1)
    bounds = np.unique(np.append(np.searchsorted(place, edges), (0, len(place)))).tolist()
    chosen = [*bounds[:-1], *(end - 1 for end in bounds[1:])]
    # A loop over columns is cheaper than an array operation over all events.
    for values in lines:
        for low, high in pairwise(bounds):
            part = values[low:high]
            chosen += (low + int(part.argmin()), low + int(part.argmax()))
    return np.unique(np.array(chosen))
