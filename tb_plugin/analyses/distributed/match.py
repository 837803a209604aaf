"""Which calls of different workers are the same collective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_LARGEST = 1 << 29
"""Product of two lengths up to which sequences are aligned (64 MiB of bits); longer ones are matched by counting."""


@dataclass(frozen=True, eq=False)
class Calls:
    """What matching needs of the calls of all workers: n rows, each worker's in order of time.

    Codes are numbers >= 0 that are equal where what they stand for is equal.
    """

    worker: Int64
    step: Int64
    """Code of the step."""
    group: Int64
    """Code of the process group and its ranks; of a point-to-point call also of its two ends."""
    name: Int64
    """Code of the collective."""
    kind: Int64
    """Code of (collective, dtype, elements)."""
    sequence: Int64
    """As recorded; -1 = none."""
    lost: Bool
    """Point-to-point calls whose other end is not known: never matched."""


def codes(*columns: Int64) -> Int64:
    """Returns a code for each row of some columns of whole numbers of equal length; codes are less than twice the rows."""
    code, count, rows = np.zeros(len(columns[0]), np.int64), 1, len(columns[0])
    for column in columns:
        if rows and (column.min() < 0 or column.max() >= rows):
            column = _dense(column)
        size = int(column.max(initial=0)) + 1
        code, count = code * size + column, count * size
        if count > 2 * rows:
            code = _dense(code)
            count = int(code.max(initial=0)) + 1
    return code


def _dense(column: Int64) -> Int64:
    return np.unique(column, return_inverse=True)[1].astype(np.int64)


def occurrence(key: Int64) -> Int64:
    """Returns how many rows before each have the same key."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    first = np.searchsorted(ordered, ordered, side="left")
    found = np.empty(len(key), np.int64)
    found[order] = np.arange(len(key)) - first
    return found


def match(calls: Calls) -> Int64:
    """Returns for each call the number of its collective, 0, 1, ...; -1 for a call that no other worker has.

    By process group and sequence number where every call of the group has one, else by aligning the sequences of
    (collective, dtype, elements) inside each step, so that one missing call shifts nothing.
    """
    label = np.full(len(calls.worker), -1, np.int64)
    unnumbered = np.zeros(int(calls.group.max(initial=0)) + 1, np.bool_)
    unnumbered[calls.group[calls.sequence < 0]] = True
    ordered = unnumbered[calls.group]
    rows = np.flatnonzero(~calls.lost & ~ordered)
    if len(rows):
        number = codes(calls.group[rows], calls.name[rows], calls.sequence[rows])
        label[rows] = codes(number, occurrence(codes(calls.worker[rows], number)))
    rows = np.flatnonzero(~calls.lost & ordered)
    if len(rows):
        label[rows] = label.max(initial=-1) + 1 + _by_order(calls, rows)
    found, inverse, count = np.unique(label, return_inverse=True, return_counts=True)
    shared = (found >= 0) & (count > 1)
    return np.where(shared, np.cumsum(shared) - 1, -1)[inverse]


def _by_order(calls: Calls, rows: Int64) -> Int64:
    """Codes of matches. A block is a group in a step: a call that is missing in one cannot shift the next."""
    worker, kind = calls.worker[rows], calls.kind[rows]
    block = codes(calls.group[rows], calls.step[rows])
    place = occurrence(codes(worker, block))
    order = np.lexsort((kind, place, block))
    first = np.flatnonzero(np.diff(block[order], prepend=-1) | np.diff(place[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    there = last - first + 1
    opening = np.flatnonzero(np.diff(block[order][first], prepend=-1))
    workers = np.repeat(there[opening], np.diff(np.append(opening, len(first))))
    odd = (kind[order][first] != kind[order][last]) | (there != workers)
    for uneven in np.unique(block[order][first][odd]).tolist():
        members = np.flatnonzero(block == uneven)
        members = members[np.argsort(worker[members], kind="stable")]
        cuts = np.flatnonzero(np.diff(worker[members])) + 1
        sequences = [tuple(part.tolist()) for part in np.split(kind[members], cuts)]
        place[members] = np.concatenate(_aligned(sequences))
    return codes(block, place)


def _aligned(sequences: Sequence[tuple[int, ...]]) -> list[Int64]:
    """For each sequence the rows its items stand in: each in turn is aligned with what the ones before it have."""
    known: dict[tuple[int, ...], Int64] = {}
    rows: list[int] = []
    kinds: list[int] = []
    for mine in sequences:
        if mine in known:
            continue
        partner = _partners(kinds, mine)
        found = np.empty(len(mine), np.int64)
        merged_rows: list[int] = []
        merged_kinds: list[int] = []
        at, fresh = 0, len(rows)
        for i, (kind, position) in enumerate(zip(mine, partner, strict=True)):
            if position is None:
                found[i] = fresh
                merged_rows.append(fresh)
                merged_kinds.append(kind)
                fresh += 1
            else:
                found[i] = rows[position]
                if position >= at:
                    merged_rows += rows[at : position + 1]
                    merged_kinds += kinds[at : position + 1]
                    at = position + 1
        rows, kinds = merged_rows + rows[at:], merged_kinds + kinds[at:]
        known[mine] = found
    return [known[mine] for mine in sequences]


def _partners(common: Sequence[int], mine: Sequence[int]) -> list[int | None]:
    """For each of mine its position in ``common``, or None. What alignment leaves over is matched by counting."""
    partner: list[int | None] = [None] * len(mine)
    shortest = min(len(common), len(mine))
    head = next((i for i in range(shortest) if common[i] != mine[i]), shortest)
    left = shortest - head
    tail = next((i for i in range(left) if common[-1 - i] != mine[-1 - i]), left)
    for i in range(head):
        partner[i] = i
    for i in range(tail):
        partner[len(mine) - 1 - i] = len(common) - 1 - i
    for i, position in longest_common(mine[head : len(mine) - tail], common[head : len(common) - tail]):
        partner[head + i] = head + position
    taken = {position for position in partner if position is not None}
    free: dict[int, list[int]] = defaultdict(list)
    for position in range(len(common) - 1, -1, -1):
        if position not in taken:
            free[common[position]].append(position)
    for i, kind in enumerate(mine):
        if partner[i] is None and free[kind]:
            partner[i] = free[kind].pop()
    return partner


def longest_common(first: Sequence[int], second: Sequence[int]) -> list[tuple[int, int]]:
    """Returns positions in both of a longest common subsequence; none where the sequences are too long to align.

    Bit-parallel (Crochemore et al. 2001, Hyyro 2004): a zero bit in ``lines[j]`` says that the common length grows at
    that item of ``first`` within ``second[:j + 1]``, so a whole line of the table is one addition of long integers.
    """
    if not first or not second or len(first) * len(second) > _LARGEST:
        return []
    where: dict[int, int] = defaultdict(int)
    for i, kind in enumerate(first):
        where[kind] |= 1 << i
    everywhere = line = (1 << len(first)) - 1
    lines = []
    for kind in second:
        hit = line & where.get(kind, 0)
        line = ((line + hit) | (line - hit)) & everywhere
        lines.append(line)
    pairs = []
    i, j = len(first) - 1, len(second) - 1
    while i >= 0 and j >= 0:
        if lines[j] >> i & 1:
            i -= 1
        elif j > 0 and not lines[j - 1] >> i & 1:
            j -= 1
        else:
            pairs.append((i, j))
            i, j = i - 1, j - 1
    return pairs
