"""Step functions at screen resolution, with gaps between selected steps."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.memory.window import MemoryRange
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.intervals import subtract, union


class Outline(msgspec.Struct, frozen=True, eq=False):
    """Times to draw, and the events whose values are drawn. Values are unknown where ``recorded`` is False."""

    time_ns: Int64
    at: Int64
    recorded: Bool


def outline_of(time_ns: Int64, window: MemoryRange, kept: Int64) -> Outline:
    """Returns the times of the events in ``kept``, and the bounds of the window's parts. Values between parts are unknown."""
    parts = window.parts
    gaps = subtract(union(np.array([window.start_ns]), np.array([window.end_ns])), parts)

    def last(times: Int64) -> Int64:
        return np.searchsorted(time_ns, times, side="right").astype(np.int64) - 1

    # Order at one moment: end of a gap, level at the start of a part, its events, its end, start of a gap.
    groups = [
        (gaps.end, None),
        (parts.start, last(parts.start - 1)),
        (time_ns[kept], kept),
        (np.minimum(parts.end, window.end_ns), last(parts.end - 1)),
        (gaps.start, None),
    ]
    time = np.concatenate([times for times, _ in groups])
    at = np.concatenate([np.zeros(len(times), np.int64) if where is None else where for times, where in groups])
    drawn = np.concatenate([np.full(len(times), where is not None) for times, where in groups])
    order = np.argsort(time, kind="stable")
    return Outline(time[order], at[order], drawn[order])


def values_of(values: Int64, known: Bool) -> list[int | float | None]:
    objects = values.astype(object)
    objects[~known] = None
    found: list[int | float | None] = objects.tolist()
    return found
