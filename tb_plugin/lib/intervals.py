"""Sets of time intervals: sorted, disjoint, half-open, in nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Bool, Int64


class Ranges(msgspec.Struct, frozen=True, eq=False):
    """Sorted, disjoint, non-empty intervals. Adjacent intervals are merged."""

    start: Int64
    end: Int64

    def __len__(self) -> int:
        return len(self.start)


# Limit of products, so that positions of several keys fit on one axis.
_MOST = 2**62
# Number of bits in the membership number of a segment.
_MAX_SETS = 32
# Recordings of one job may start this far apart: host clocks differ, and start times are approximate.
RECORDING_SLACK_NS = 10 * 10**9
EMPTY = Ranges(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: Int64, end: Int64) -> Ranges:
    """Returns the union of intervals, which may be in any order. Empty and inverted intervals are ignored."""
    proper = end > start
    start, end = start[proper], end[proper]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
    last = np.concatenate((first[1:] - 1, [len(start) - 1]))
    return Ranges(start[first], reach[last])


def join(*sets: Ranges) -> Ranges:
    return union(np.concatenate([s.start for s in sets]), np.concatenate([s.end for s in sets]))


def measure(ranges: Ranges) -> int:
    return int((ranges.end - ranges.start).sum())


def contains(ranges: Ranges, times: Int64) -> Bool:
    inside: Bool
    if len(ranges) == 1:
        inside = (times >= ranges.start[0]) & (times < ranges.end[0])
    else:
        index = np.searchsorted(ranges.start, times, side="right")
        inside = times < np.append(np.iinfo(np.int64).min, ranges.end)[index]  # False before the first interval
    return inside


def overlaps(ranges: Ranges, start: Int64, end: Int64) -> Bool:
    index = np.searchsorted(ranges.end, start, side="right")
    found: Bool = np.maximum(np.append(ranges.start, np.iinfo(np.int64).max)[index], start) < end
    return found


def covered_before(ranges: Ranges, times: Int64) -> Int64:
    """Returns for each time the length of the part of the set before that time, in nanoseconds."""
    lengths = np.concatenate(([0], np.cumsum(ranges.end - ranges.start))).astype(np.int64)
    index = np.searchsorted(ranges.start, times, side="right")
    whole = lengths[index]
    if not len(ranges):
        return whole
    beyond = np.maximum(ranges.end[np.maximum(index - 1, 0)] - times, 0)
    return whole - np.where(index > 0, beyond, 0)


def measure_within(ranges: Ranges, start: Int64, end: Int64) -> Int64:
    """Returns for each interval ``[start[i], end[i])`` the length of the part of the set inside, in nanoseconds."""
    return covered_before(ranges, np.maximum(start, end)) - covered_before(ranges, start)


def intersect(a: Ranges, b: Ranges) -> Ranges:
    sweep = _Sweep(a, b)
    return sweep.where(sweep.inside == 0b11)


def subtract(a: Ranges, b: Ranges) -> Ranges:
    sweep = _Sweep(a, b)
    return sweep.where(sweep.inside == 0b01)


def first_in(*sets: Ranges) -> list[Ranges]:
    found: list[Ranges] = []
    before = EMPTY
    for at in range(0, len(sets), _MAX_SETS - 1):
        part = (before, *sets[at : at + _MAX_SETS - 1])
        sweep = _Sweep(*part)
        first = sweep.inside & (~sweep.inside + np.uint32(1))  # the lowest set bit
        found += [sweep.where(first == 1 << place) for place in range(1, len(part))]
        before = sweep.where(sweep.inside != 0)
    return found


class _Sweep:
    """Bounds of up to _MAX_SETS sets. Bit i of ``inside``: set i contains the time from ``left`` to ``right``."""

    def __init__(self, *sets: Ranges) -> None:
        times = np.concatenate([bounds for ranges in sets for bounds in (ranges.start, ranges.end)])
        order = np.argsort(times, kind="stable")  # merges sorted runs
        ordered = times[order]
        proper = np.flatnonzero(ordered[1:] > ordered[:-1])
        self.left, self.right = ordered[proper], ordered[proper + 1]
        bits = np.repeat(np.uint32(1) << np.arange(len(sets), dtype=np.uint32), [2 * len(ranges) for ranges in sets])
        self.inside = np.bitwise_xor.accumulate(bits[order])[proper]

    def where(self, chosen: Bool) -> Ranges:
        """Returns the selected segments as a set. Adjacent segments are merged."""
        edge = np.diff(np.concatenate(([False], chosen, [False])).astype(np.int8))
        begins, ends = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1) - 1
        return Ranges(self.left[begins], self.right[ends])


def measure_by(key: Int64, start: Int64, end: Int64, count: int) -> Int64:
    """Returns the length of the union of the intervals of each key (0 .. count - 1), in nanoseconds."""
    if not len(key):
        return np.zeros(count, np.int64)
    low = min(int(start.min()), int(end.min()))
    span = max(int(start.max()), int(end.max())) - low + 1
    if span * count < _MOST:
        # With all keys one after the other on one axis, a running maximum gives the latest end per key.
        order = np.argsort(key * span + (start - low), kind="stable")
        key, start, end = key[order], start[order], end[order]
        shift = key * span - low
        reach = np.maximum.accumulate(end + shift) - shift
    else:
        order = np.lexsort((start, key))
        key, start, end = key[order], start[order], end[order]
        # The same with ranks instead of times, which are higher for later keys.
        by_end = np.lexsort((end, key))
        place = np.empty(len(key), np.int64)
        place[by_end] = np.arange(len(key))
        reach = end[by_end][np.maximum.accumulate(place)]
    begin = start.copy()
    begin[1:] = np.where(key[1:] == key[:-1], np.maximum(start[1:], reach[:-1]), start[1:])
    total = np.zeros(count, np.int64)
    np.add.at(total, key, np.maximum(end - begin, 0))
    return total


def split_by_gaps(recordings: Sequence[tuple[int, int]], slack_ns: int = RECORDING_SLACK_NS) -> list[list[int]]:
    """Splits (start, end) pairs at gaps longer than ``slack_ns``. Returns the indices of each group, by time."""
    groups: list[list[int]] = []
    until = 0
    for place in sorted(range(len(recordings)), key=lambda place: recordings[place][0]):
        start, end = recordings[place]
        if groups and start <= until + slack_ns:
            groups[-1].append(place)
            until = max(until, end)
        else:
            groups.append([place])
            until = end
    return groups
