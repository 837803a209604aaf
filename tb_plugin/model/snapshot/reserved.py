"""Segments of a device: reserved address ranges over time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.arrays import Int64
from tb_plugin.model.snapshot.block_lives import Final, lives_in_snapshot
from tb_plugin.model.snapshot.table import NEVER, Action, State
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
    """Returns the segments allocated as a whole, as blocks that end without a request, and the number of odd events."""
    as_block = np.full(len(action), Action.UNKNOWN, np.int8)
    as_block[action == Action.SEGMENT_ALLOC] = Action.ALLOC
    as_block[action == Action.SEGMENT_FREE] = Action.FREE_COMPLETED
    left = Final(np.arange(len(final_at)), final_at, np.full(len(final_at), State.ALLOCATED, np.int8))
    lives = lives_in_snapshot(as_block, address, left)
    event, final = lives.event.astype(np.int64), lives.final.astype(np.int64)
    has_event = event != MISSING
    return Ranges(
        np.where(has_event, np.append(address, 0)[event], np.append(final_at, 0)[final]),
        np.where(has_event, np.append(size, 0)[event], np.append(final_size, 0)[final]),
        np.where(has_event, lives.begin, MISSING),
        lives.end.astype(np.int64),
        event,
        final,
    ), lives.unmatched_releases + lives.unreleased_reuse


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
