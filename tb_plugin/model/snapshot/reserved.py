"""Segments of a device: reserved address ranges over time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import Int64
from tb_plugin.model.snapshot.table import NEVER, Action
from tb_plugin.model.trace.schema import MISSING


class Ranges(msgspec.Struct, frozen=True, eq=False):
    """Reserved address ranges over time. ``event`` and ``final`` are the rows with their details; -1 = none."""

    address: Int64
    size: Int64
    begin: Int64
    end: Int64
    event: Int64
    final: Int64


def fixed_ranges(
    action: npt.NDArray[np.int8], address: Int64, size: Int64, final_at: Int64, final_size: Int64
) -> tuple[Ranges, int]:
    """Returns the segments that were allocated as a whole, and the number of inconsistent events.

    The end of a segment is the first release at its address that precedes the next allocation at that address. A
    segment of the final state that has no allocation event existed before the history.
    """
    rows = np.flatnonzero((action == Action.SEGMENT_ALLOC) | (action == Action.SEGMENT_FREE))
    order = rows[np.argsort(address[rows], kind="stable")]
    place, taken = address[order], action[order] == Action.SEGMENT_ALLOC
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = place[1:] != place[:-1]
    starts = np.flatnonzero(fresh | taken)
    if not len(starts):
        before = np.full(len(final_at), MISSING)
        return Ranges(final_at, final_size, before, np.full(len(final_at), NEVER), before, np.arange(len(final_at))), 0
    event = order[starts]
    given = np.minimum.reduceat(np.where(taken, NEVER, order), starts)
    odd = int((~taken).sum() - (given != NEVER).sum())
    begin = np.where(taken[starts], event, MISSING)
    following = np.full(len(starts), NEVER, np.int64)
    reused = ~fresh[starts[1:]]
    following[:-1][reused] = event[1:][reused]
    odd += int(((given == NEVER) & (following != NEVER)).sum())
    end = np.minimum(given, following)
    where = place[starts]
    final = np.full(len(starts), MISSING, np.int64)
    open_ = np.flatnonzero(end == NEVER)
    extra = np.arange(len(final_at))
    if len(final_at) and len(open_):
        by = np.argsort(final_at, kind="stable")
        found = np.minimum(np.searchsorted(final_at[by], where[open_]), len(by) - 1)
        same = final_at[by][found] == where[open_]
        final[open_[same]] = by[found[same]]
        extra = np.setdiff1d(extra, by[found[same]])
    none = np.full(len(extra), MISSING)
    return Ranges(
        np.concatenate((where, final_at[extra])),
        np.concatenate((size[event], final_size[extra])),
        np.concatenate((begin, none)),
        np.concatenate((end, np.full(len(extra), NEVER))),
        np.concatenate((event, none)),
        np.concatenate((final, extra)),
    ), odd


def mapped_ranges(
    action: npt.NDArray[np.int8], address: Int64, size: Int64, final_at: Int64, final_size: Int64
) -> tuple[Ranges, int]:
    """Returns the ranges of expandable segments and the number of odd events, by undoing events from the final state."""
    held = _Held()
    for i, (at, length) in enumerate(zip(final_at.tolist(), final_size.tolist(), strict=True)):
        held.add(at, at + length, (NEVER, i))
    rows = np.flatnonzero((action == Action.SEGMENT_MAP) | (action == Action.SEGMENT_UNMAP))
    made: list[tuple[int, int, int, int, int, int]] = []
    odd = 0
    for row in rows[::-1].tolist():
        at, to = int(address[row]), int(address[row]) + int(size[row])
        if action[row] == Action.SEGMENT_UNMAP:
            odd += held.add(at, to, (row, MISSING)) < to - at
            continue
        pieces = held.cut(at, to)
        odd += sum(stop - start for start, stop, _ in pieces) < to - at
        made += [(start, stop - start, row, end, row, final) for start, stop, (end, final) in pieces]
    # For ranges from before the history, the event that unmapped them has the details.
    made += [
        (start, stop - start, MISSING, end, MISSING if end == NEVER else end, final)
        for start, stop, (end, final) in held.all()
    ]
    columns = np.array(made, np.int64).reshape(-1, 6).T
    return Ranges(*columns), int(odd)


class _Held:
    """Address ranges that do not overlap, sorted by start. Each range has its own details."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._held: dict[int, tuple[int, tuple[int, int]]] = {}

    def add(self, start: int, stop: int, about: tuple[int, int]) -> int:
        """Adds those parts of an address range that are not yet included. Returns the number of bytes added."""
        added = 0
        for low, high in self._gaps(start, stop):
            insort(self._starts, low)
            self._held[low] = (high, about)
            added += high - low
        return added

    def _gaps(self, start: int, stop: int) -> list[tuple[int, int]]:
        gaps = []
        at = start
        for low in self._touching(start, stop):
            if low > at:
                gaps.append((at, low))
            at = max(at, self._held[low][0])
        if at < stop:
            gaps.append((at, stop))
        return gaps

    def _touching(self, start: int, stop: int) -> list[int]:
        first = max(bisect_right(self._starts, start) - 1, 0)
        return [low for low in self._starts[first : bisect_left(self._starts, stop)] if self._held[low][0] > start]

    def cut(self, start: int, stop: int) -> list[tuple[int, int, tuple[int, int]]]:
        pieces = []
        for low in self._touching(start, stop):
            high, about = self._held.pop(low)
            del self._starts[bisect_left(self._starts, low)]
            for left, right in ((low, start), (stop, high)):
                if left < right:
                    insort(self._starts, left)
                    self._held[left] = (right, about)
            pieces.append((max(low, start), min(high, stop), about))
        return pieces

    def all(self) -> list[tuple[int, int, tuple[int, int]]]:
        return [(low, *self._held[low]) for low in self._starts]
