"""Alignment of call sequences that tolerates missing calls."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import codes, occurrence

Int64 = npt.NDArray[np.int64]

# maximum product of two lengths for alignment (a table of 64 MiB); longer sequences are matched by counting
_MAX_TABLE = 1 << 29
# number of equal items required after a gap
_MIN_EQUAL_RUN = 16
# longest gap to find without a table
_MAX_GAP = 8
# number of gaps after which the rest is aligned with a table
_MAX_GAPS = 64


def by_order(worker: Int64, block: Int64, kind: Int64) -> Int64:
    """Returns an index of each call within its block. Calls with equal block and index belong together.

    The calls of each worker must be in time order. If all workers have the same sequence of calls in a block, the
    index is the position in it. Otherwise the sequences are aligned first.
    """
    place = occurrence(codes(worker, block))
    order = np.lexsort((kind, place, block))
    first = np.flatnonzero(np.diff(block[order], prepend=-1) | np.diff(place[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    present = last - first + 1
    opening = np.flatnonzero(np.diff(block[order][first], prepend=-1))
    workers = np.repeat(present[opening], np.diff(np.append(opening, len(first))))
    odd = (kind[order][first] != kind[order][last]) | (present != workers)
    uneven = np.zeros(int(block.max(initial=-1)) + 1, np.bool_)
    uneven[block[order][first][odd]] = True
    rows = np.flatnonzero(uneven[block])
    rows = rows[np.lexsort((worker[rows], block[rows]))]
    ends = np.append(np.flatnonzero(np.diff(block[rows])) + 1, len(rows))
    for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        members = rows[begin:end]
        cuts = np.flatnonzero(np.diff(worker[members])) + 1
        if len(members):
            place[members] = np.concatenate(align_sequences(np.split(kind[members], cuts)))
    return place


def align_sequences(sequences: Sequence[Int64]) -> list[Int64]:
    """Returns, for each sequence, the position of each item in the merged sequence.

    Sequences are merged one by one. The most frequent sequence comes first, then the longest one.
    """
    texts = [mine.tobytes() for mine in sequences]
    often = Counter(texts)
    known: dict[bytes, Int64] = {}
    rows = kinds = np.empty(0, np.int64)
    for at in sorted(range(len(sequences)), key=lambda i: (-often[texts[i]], -len(sequences[i]))):
        mine = sequences[at]
        if texts[at] in known:
            continue
        partner = _partners(kinds, mine)
        fresh = partner < 0
        found = np.empty(len(mine), np.int64)
        found[~fresh] = rows[partner[~fresh]]
        found[fresh] = len(rows) + np.arange(int(fresh.sum()))
        # New items are inserted after the last matched one.
        behind = np.maximum.accumulate(partner)[fresh] + 1 if len(mine) else partner
        rows, kinds = np.insert(rows, behind, found[fresh]), np.insert(kinds, behind, mine[fresh])
        known[texts[at]] = found
    return [known[text] for text in texts]


def _partners(common: Int64, mine: Int64) -> Int64:
    """Index in ``common`` of each item of ``mine``; -1 = none.

    Items that do not align are matched to unused items of the same kind, in order.
    """
    partner = np.full(len(mine), -1, np.int64)
    left = min(len(common), len(mine))
    head = _common_prefix(common[:left], mine[:left])
    tail = _common_prefix(common[::-1][: left - head], mine[::-1][: left - head])
    partner[:head] = np.arange(head)
    partner[len(mine) - tail :] = np.arange(len(common) - tail, len(common))
    at, where, end, stop = head, head, len(mine) - tail, len(common) - tail
    for _ in range(_MAX_GAPS):
        gap = _next_gap(common[where:stop], mine[at:end])
        if gap is None:
            break
        at, where = at + gap[0], where + gap[1]
        run = _common_prefix(common[where : where + end - at][: stop - where], mine[at : at + stop - where][: end - at])
        partner[at : at + run] = np.arange(where, where + run)
        at, where = at + run, where + run
    for i, position in longest_common(mine[at:end].tolist(), common[where:stop].tolist()):
        partner[at + i] = where + position
    over = np.flatnonzero(partner < 0)
    free = np.ones(len(common), np.bool_)
    free[partner[partner >= 0]] = False
    spare = np.flatnonzero(free)
    if len(over) and len(spare):
        kinds = codes(np.concatenate((mine[over], common[spare])))
        own, theirs = kinds[: len(over)], kinds[len(over) :]
        mark = codes(kinds, np.concatenate((occurrence(own), occurrence(theirs))))
        _, first, second = np.intersect1d(mark[: len(over)], mark[len(over) :], return_indices=True)
        partner[over[first]] = spare[second]
    return partner


def _common_prefix(first: Int64, second: Int64) -> int:
    differing = first != second
    at = int(differing.argmax()) if len(differing) else 0
    return at if len(differing) and differing[at] else len(differing)


def _next_gap(common: Int64, mine: Int64) -> tuple[int, int] | None:
    """Number of items to skip in ``mine`` and in ``common`` until both sequences agree again.

    None if that takes too many items.
    """
    for wide in range(1, _MAX_GAP + 1):
        for mine_from, common_from in ((0, wide), (wide, 0)):
            a, b = mine[mine_from : mine_from + _MIN_EQUAL_RUN], common[common_from : common_from + _MIN_EQUAL_RUN]
            if len(a) == len(b) == _MIN_EQUAL_RUN and (a == b).all():
                return mine_from, common_from
    return None


def longest_common(first: Sequence[int], second: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the index pairs of a longest common subsequence; empty if the sequences are too long.

    The bit-parallel algorithm is by Crochemore et al. (2001) and Hyyro (2004). Bit i of ``lines[j]`` is zero if
    item i of ``first`` increases the common length with ``second[:j + 1]``.
    """
    if not first or not second or len(first) * len(second) > _MAX_TABLE:
        return []
    where: dict[int, int] = defaultdict(int)
    for i, kind in enumerate(first):
        where[kind] |= 1 << i
    everywhere = line = (1 << len(first)) - 1
    lines, size = [], (len(first) + 7) // 8
    for kind in second:
        hit = line & where.get(kind, 0)
        line = ((line + hit) | (line - hit)) & everywhere
        lines.append(line.to_bytes(size, "little"))
    pairs = []
    i, j = len(first) - 1, len(second) - 1
    while i >= 0 and j >= 0:
        byte, bit = i >> 3, i & 7
        if lines[j][byte] >> bit & 1:
            i -= 1
        elif j > 0 and not lines[j - 1][byte] >> bit & 1:
            j -= 1
        else:
            pairs.append((i, j))
            i, j = i - 1, j - 1
    return pairs
