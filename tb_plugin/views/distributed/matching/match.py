"""Which calls of different workers are the same collective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import codes, occurrence
from tb_plugin.views.distributed.matching.alignment import by_order
from tb_plugin.views.distributed.matching.sequence_numbers import Stream, numbered, usual_kinds

__all__ = ["BY", "Calls", "Matched", "codes", "match", "matched", "nothing"]

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

BY = ("number", "inferred number", "order", "ends")
"""How a call was matched: by its recorded number, by one that is left out or that counts from elsewhere, by its place among
the others of its group, or as one end of a transfer by its place among those between both."""
_NUMBER, _INFERRED, _ORDER, _ENDS = range(len(BY))


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
    two_ended: Bool | None = None
    """Point-to-point calls; None = not known which."""
    no_step: int = -1
    """Code of the step of calls that lie in none."""
    end_ns: Int64 | None = None
    """When each call ends, by its worker's clock: tells equal transfers apart of which a worker lacks some."""


@dataclass(frozen=True, eq=False)
class Matched:
    """What n calls were matched with."""

    label: Int64
    """Number of the collective, 0, 1, ...; -1 for a call that no other worker has."""
    by: Int64
    """Position in BY; -1 for a call without a match."""


def nothing(count: int) -> Matched:
    """Returns so many calls without a match."""
    return Matched(np.full(count, -1, np.int64), np.full(count, -1, np.int64))


def match(calls: Calls) -> Int64:
    """Returns for each call the number of its collective, 0, 1, ...; -1 for a call that no other worker has."""
    return matched(calls).label


def matched(calls: Calls) -> Matched:
    """Returns for each call its collective, and how that is known.

    By process group and sequence number where a call has one or it can be inferred, else by aligning the sequences of
    (collective, dtype, elements) inside each step, so that one missing call shifts nothing. Calls without a number are
    aligned with the numbered ones of their group too.
    """
    number, inferred = _numbers(calls)
    label = np.full(len(calls.worker), -1, np.int64)
    by = np.where(inferred, _INFERRED, _NUMBER)
    rows = np.flatnonzero(number >= 0)
    if len(rows):
        label[rows] = _by_number(calls, rows, number)
    over = np.flatnonzero((number < 0) & ~calls.lost)
    if len(over):
        label[over] = _beside(calls, rows, over, label, number)
        by[over] = _ORDER if calls.two_ended is None else np.where(calls.two_ended[over], _ENDS, _ORDER)
    return _shared(calls.worker, label, by)


def _numbers(calls: Calls) -> tuple[Int64, Bool]:
    keep = np.flatnonzero(~calls.lost)
    number, inferred = np.full(len(calls.worker), -1, np.int64), np.zeros(len(calls.worker), np.bool_)
    stream = Stream(
        calls.worker[keep], calls.step[keep], calls.group[keep], calls.name[keep], calls.kind[keep], calls.no_step
    )
    number[keep], inferred[keep] = numbered(stream, calls.sequence[keep])
    return number, inferred


def _by_number(calls: Calls, rows: Int64, number: Int64) -> Int64:
    """Codes of matches. Several calls of a worker with one number are a coalesced batch: of these each kind by its order."""
    worker = calls.worker[rows]
    label = codes(calls.group[rows], calls.name[rows], number[rows])
    order = np.lexsort((worker, label))
    again = (np.diff(label[order], prepend=-1) == 0) & (np.diff(worker[order], prepend=-1) == 0)
    if not again.any():
        return label
    batched = np.zeros(int(label.max()) + 1, np.bool_)
    batched[label[order][again]] = True
    batch = np.flatnonzero(batched[label])
    part = codes(label[batch], calls.kind[rows[batch]])
    label[batch] = len(batched) + codes(part, occurrence(codes(worker[batch], part)))
    return label


def _beside(calls: Calls, known: Int64, rows: Int64, label: Int64, number: Int64) -> Int64:
    """Codes of matches of calls without a number: by order, among themselves and with the numbered ones of their group.

    What is numbered stands there once, in order of the numbers, as if one more worker had it. Of a worker that numbers some
    of its calls these are aligned too, so that the others stay between them.
    """
    fresh = int(label.max(initial=-1)) + 1
    groups = np.zeros(int(calls.group.max()) + 1, np.bool_)
    groups[calls.group[rows]] = True
    known = known[groups[calls.group[known]]]
    both = np.concatenate((rows, known))
    pair = codes(calls.group[both], calls.worker[both])
    lacking = np.zeros(int(pair.max()) + 1, np.bool_)
    lacking[pair[: len(rows)]] = True
    own = np.sort(np.concatenate((rows, known[lacking[pair[len(rows) :]]])))
    ones, first = np.unique(label[known], return_index=True)
    one_each = known[first]
    one_each = one_each[np.lexsort((number[one_each], calls.group[one_each]))]
    every = np.concatenate((one_each, own))
    kind = calls.kind[every]
    if len(ones):
        places, usual = usual_kinds(label[known], calls.kind[known], calls.worker[known])
        kind[: len(one_each)] = usual[np.searchsorted(places, label[one_each])]
    worker = np.concatenate((np.zeros(len(one_each), np.int64), calls.worker[own] + 1))
    block = _blocks(calls, every, worker)
    place = by_order(worker, block, kind)
    if calls.end_ns is not None and calls.two_ended is not None:
        # Transfers never have numbers that mean the same at both ends.
        alone = np.flatnonzero(calls.two_ended[every])
        if len(alone):
            columns = (calls.group[every], block, kind, place, calls.end_ns[every])
            place[alone] = _placed_by_time(worker[alone], *(column[alone] for column in columns))
    code = codes(block, place)
    found = np.full(int(code.max(initial=-1)) + 1, -1, np.int64)
    found[code[: len(one_each)]] = label[one_each]
    code = code[len(one_each) :][number[own] < 0]
    return np.where(found[code] >= 0, found[code], fresh + code)


def _blocks(calls: Calls, rows: Int64, worker: Int64) -> Int64:
    """A block is a group in a step: a call that is missing in one cannot shift the next.

    Of a group of which some worker knows no step at all, while others do, all calls are one block.
    """
    group, step = calls.group[rows], calls.step[rows]
    pair = codes(group, worker)
    has = np.zeros(int(pair.max(initial=0)) + 1, np.bool_)
    has[pair[step != calls.no_step]] = True
    without, some = (np.zeros(int(calls.group.max(initial=0)) + 1, np.bool_) for _ in range(2))
    without[group[~has[pair]]] = True
    some[group[has[pair]]] = True
    return codes(group, np.where((without & some)[group], 0, step))


def _shared(worker: Int64, label: Int64, by: Int64) -> Matched:
    """Numbers what several workers have. A worker has a collective once: of more calls the surest, then the first one."""
    order = np.lexsort((by, worker, label))
    again = (np.diff(label[order], prepend=-1) == 0) & (np.diff(worker[order], prepend=-1) == 0)
    if (again & (label[order] >= 0)).any():
        label = label.copy()
        label[order[again]] = -1
    found, inverse, count = np.unique(label, return_inverse=True, return_counts=True)
    several = (found >= 0) & (count > 1)
    numbers = np.where(several, np.cumsum(several) - 1, -1)[inverse]
    return Matched(numbers, np.where(numbers >= 0, by, -1))


def _placed_by_time(worker: Int64, group: Int64, block: Int64, kind: Int64, place: Int64, end_ns: Int64) -> Int64:
    """Returns places in blocks, of which those of workers that have fewer calls of a kind than another one are by time.

    Calls that belong together end at (nearly) one moment. Clocks of workers differ by an unknown time, which is the median
    difference of the ends in a group where none lacks a call of the kind; without any the places stay.
    """
    order = np.lexsort((place, worker, kind, block))
    which = codes(block, kind)[order]
    fresh = np.diff(which, prepend=-1) != 0
    own = np.flatnonzero(fresh | (np.diff(worker[order], prepend=-1) != 0))
    counts = np.diff(np.append(own, len(order)))
    parts = np.searchsorted(own, np.flatnonzero(fresh))
    uneven = np.maximum.reduceat(counts, parts) != np.minimum.reduceat(counts, parts)
    lacking = np.repeat(np.repeat(uneven, np.diff(np.append(parts, len(own)))), counts)
    sure = np.ones(len(order), np.bool_)
    sure[order[lacking]] = False
    offset, known = _offsets(worker, group, codes(block, place), end_ns, sure)
    late, found = end_ns - offset, place.copy()
    for at in np.flatnonzero(uneven).tolist():
        stop = parts[at + 1] if at + 1 < len(parts) else len(own)
        pieces = [order[own[i] : own[i] + counts[i]] for i in range(parts[at], stop)]
        whole = max(pieces, key=len)
        if not known[whole[0]] or not (np.diff(late[whole]) > 0).all():
            continue
        middles = (late[whole][1:] + late[whole][:-1]) // 2
        for mine in pieces:
            nearest = np.searchsorted(middles, late[mine])
            if known[mine[0]] and len(mine) < len(whole) and (np.diff(nearest) > 0).all():
                found[mine] = place[whole[nearest]]
    return found


def _offsets(worker: Int64, group: Int64, code: Int64, end_ns: Int64, sure: Bool) -> tuple[Int64, Bool]:
    """How much later than the others each call's worker's clock shows an end, in the call's group, and whether that is known.

    Of the ``sure`` calls of which all workers of the group that ever meet are there.
    """
    order = np.lexsort((end_ns, code))
    first = np.flatnonzero(np.diff(code[order], prepend=-1))
    count = np.diff(np.append(first, len(order)))
    middle = end_ns[order][first + count // 2]
    middle = (middle + end_ns[order][first + (count - 1) // 2]) // 2
    usual, members = np.empty(len(code), np.int64), np.empty(len(code), np.int64)
    usual[order], members[order] = np.repeat(middle, count), np.repeat(count, count)
    members[~sure] = 0
    most = np.zeros(int(group.max()) + 1, np.int64)
    np.maximum.at(most, group, members)
    rows = np.flatnonzero((members == most[group]) & (members > 1))
    pair = codes(group, worker)
    offset = np.zeros(int(pair.max()) + 1, np.int64)
    by_pair = rows[np.lexsort((end_ns[rows] - usual[rows], pair[rows]))]
    begin = np.flatnonzero(np.diff(pair[by_pair], prepend=-1))
    length = np.diff(np.append(begin, len(by_pair)))
    chosen = by_pair[begin + length // 2]
    offset[pair[chosen]] = (end_ns - usual)[chosen]
    known = np.zeros(len(offset), np.bool_)
    known[pair[chosen]] = True
    return offset[pair], known[pair]
