"""Step functions at screen resolution, with gaps between selected steps."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tb_plugin.analysis.memory.window import MemoryRange
from tb_plugin.lib.groupby import Bool, Int64
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


def detail_of(time_ns: Int64, curves: Sequence[Int64], window: MemoryRange, width: int) -> Int64:
    """Returns the indices to draw: the first, last, lowest and highest value of each curve in each of ``width``
    columns.
    """
    if len(time_ns) <= 4 * width:
        return np.arange(len(time_ns))
    span = max(1, window.end_ns - window.start_ns)
    # Integers are exact: spans of days times a width still fit.
    column = (time_ns - window.start_ns) // (span // width + 1)
    first = np.flatnonzero(np.concatenate(([True], column[1:] != column[:-1])))
    of = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(time_ns))))
    chosen = [first, np.append(first[1:], len(time_ns)) - 1]
    for values in curves:
        for extreme in (np.minimum, np.maximum):
            hits = np.flatnonzero(values == extreme.reduceat(values, first)[of])
            chosen.append(hits[np.concatenate(([True], of[hits][1:] != of[hits][:-1]))])
    return np.unique(np.concatenate(chosen))
