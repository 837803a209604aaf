"""Step functions of time, and their exact statistics in bins.

Times are integer nanoseconds. A value is valid until the next time; NaN means unknown.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Float64, Int64
from tb_plugin.lib.intervals import Ranges


class Curve(msgspec.Struct, frozen=True, eq=False):
    """``value[i]`` is valid from ``time_ns[i]`` to the next time, the last one without end. The last of equal times wins."""

    time_ns: Int64
    value: Float64
    before: float = np.nan


class Bins(msgspec.Struct, frozen=True, eq=False):
    """Mean, minimum and maximum of the known times in each bin; NaN if there are none."""

    mean: Float64
    low: Float64
    high: Float64


def edges_of(start_ns: int, end_ns: int, bins: int) -> Int64:
    """Returns the edges of bins of equal length. Edge i is ``start + (end - start) * i // bins``."""
    whole, rest = divmod(end_ns - start_ns, bins)
    number = np.arange(bins + 1, dtype=np.int64)
    edges: Int64 = start_ns + whole * number + rest * number // bins
    return edges


def bin_curve(curve: Curve, edges_ns: Int64) -> Bins:
    """Returns statistics per bin in linear time. Sums start at 0 in each bin, so that short bins lose no precision."""
    left, right = edges_ns[:-1], edges_ns[1:]
    first = np.searchsorted(curve.time_ns, edges_ns, side="left")
    changes = np.flatnonzero(first[1:] > first[:-1])
    begin, end = first[:-1], first[1:]
    # Value at the left edge, valid until the first change.
    until = right.copy()
    until[changes] = curve.time_ns[begin[changes]]
    carried = np.append(curve.value, curve.before)[begin - 1]
    carried[until == left] = np.nan
    known = np.where(np.isnan(carried), 0, until - left)
    with np.errstate(over="ignore"):
        area = np.where(np.isnan(carried), 0.0, carried * (until - left))
    low, high = carried.copy(), carried
    if len(changes):
        inside = slice(int(first[0]), int(first[-1]))
        value, time = curve.value[inside], curve.time_ns[inside]
        length = np.diff(time, append=right[-1])
        length[end[changes] - 1 - inside.start] = right[changes] - curve.time_ns[end[changes] - 1]
        # Means of huge values may overflow. They are clipped to the minimum and maximum below.
        with np.errstate(over="ignore"):
            weighted = value * length
        unknown = np.isnan(value)
        if unknown.any():
            length[unknown], weighted[unknown] = 0, 0.0
        at = begin[changes] - inside.start
        known[changes] += np.add.reduceat(length, at)
        with np.errstate(over="ignore", invalid="ignore"):
            area[changes] += np.add.reduceat(weighted, at)
        low[changes] = np.fmin(low[changes], np.fmin.reduceat(value, at))
        high[changes] = np.fmax(high[changes], np.fmax.reduceat(value, at))
    nothing = known == 0
    low[nothing] = high[nothing] = np.nan
    mean = np.full(len(left), np.nan)
    np.divide(area, known, out=mean, where=~nothing)
    return Bins(np.clip(mean, low, high), low, high)


def indicator(ranges: Ranges) -> Curve:
    """Returns a curve that is 1 inside the intervals and 0 outside."""
    time = np.column_stack((ranges.start, ranges.end)).ravel()
    return Curve(time, np.tile([1.0, 0.0], len(ranges)), 0.0)


def sum_of_intervals(start_ns: Int64, end_ns: Int64, weight: Float64 | None = None) -> Curve:
    """Returns the sum of weights (default 1) of the intervals at each time, exactly 0 where there are none."""
    proper = np.flatnonzero(end_ns > start_ns)
    if not len(proper):
        return Curve(np.empty(0, np.int64), np.empty(0), 0.0)
    time = np.concatenate((start_ns[proper], end_ns[proper]))
    # At equal times, starts come before ends.
    order = np.argsort(time, kind="stable")
    begins = order < len(proper)
    time = time[order]
    last = np.flatnonzero(np.append(time[1:] > time[:-1], True))
    running = np.cumsum(np.where(begins, 1, -1))[last]
    if weight is None:
        return Curve(time[last], running.astype(np.float64), 0.0)
    change = np.concatenate((weight[proper], -weight[proper]))[order]
    value = np.cumsum(change)[last]
    # A nonzero sum without open intervals is a rounding error. It is subtracted from later sums.
    idle = np.maximum.accumulate(np.where(running == 0, np.arange(len(last)), -1))
    value -= np.append(value, 0.0)[idle]
    return Curve(time[last], np.where(running > 0, value, 0.0), 0.0)
