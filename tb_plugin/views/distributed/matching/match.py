"""Matching of calls on different workers."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import codes, occurrence
from tb_plugin.views.distributed.matching.alignment import by_order
from tb_plugin.views.distributed.matching.sequence_numbers import Stream, number_calls, usual_kinds

__all__ = ["BY", "Calls", "Matched", "codes", "match", "match_calls", "no_matches"]

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# sequence number as recorded; as inferred; index among calls of the group; index among transfers between two ranks
BY = ("number", "inferred number", "order", "ends")
_NUMBER, _INFERRED, _ORDER, _ENDS = range(len(BY))


class Calls(msgspec.Struct, frozen=True, eq=False):
    """Columns that matching uses: one row per call, in time order within each worker.

    Codes are integers >= 0. Equal codes mean equal values.
    """

    worker: Int64
    step: Int64
    group: Int64
    """Code of the process group. For point-to-point calls, it also identifies the sender and the receiver."""
    name: Int64
    kind: Int64
    """Code of (collective, dtype, elements)."""
    sequence: Int64
    """Recorded sequence number; -1 = none."""
    lost: Bool
    """Marks point-to-point calls with an unknown peer. They are never matched."""
    two_ended: Bool | None = None
    """Marks point-to-point calls; None = unknown."""
    no_step: int = -1
    """Step code of calls outside the steps."""
    end_ns: Int64 | None = None
    """End by the worker's clock. Used if some workers lack calls of the same kind."""


class Matched(msgspec.Struct, frozen=True, eq=False):
    """Result of matching: one row per call."""

    label: Int64
    """Index of the collective, from 0; -1 = unmatched."""
    by: Int64
    """Index into ``BY`` of the method that matched the call; -1 = unmatched."""


def no_matches(count: int) -> Matched:
    """Returns ``count`` rows of unmatched calls."""
    return Matched(np.full(count, -1, np.int64), np.full(count, -1, np.int64))


def match(calls: Calls) -> Int64:
    """Returns the index of each call's collective, from 0; -1 = unmatched."""
    return match_calls(calls).label


def match_calls(calls: Calls) -> Matched:
    """Matches the calls that belong to one collective.

    Calls match if process group and sequence number are equal. Missing numbers may be inferred. Calls without a
    number match if (collective, dtype, elements) align within a step, so a missing call does not shift later calls.
    Calls without a number are also aligned with the numbered calls of their group.
    """
    number, inferred = _numbers(calls)
    label = np.full(len(calls.worker), -1, np.int64)
    by = np.where(inferred, _INFERRED, _NUMBER)
    rows = np.flatnonzero(number >= 0)
    if len(rows):
        label[rows] = _by_number(calls, rows, number)
    over = np.flatnonzero((number < 0) & ~calls.lost)
    if len(over):
        label[over] = _match_by_order(calls, rows, over, label, number)
        by[over] = _ORDER if calls.two_ended is None else np.where(calls.two_ended[over], _ENDS, _ORDER)
    return _numbered_matches(calls.worker, label, by)


def _numbers(calls: Calls) -> tuple[Int64, Bool]:
    keep = np.flatnonzero(~calls.lost)
    number, inferred = np.full(len(calls.worker), -1, np.int64), np.zeros(len(calls.worker), np.bool_)
    stream = Stream(
        calls.worker[keep], calls.step[keep], calls.group[keep], calls.name[keep], calls.kind[keep], calls.no_step
    )
    number[keep], inferred[keep] = number_calls(stream, calls.sequence[keep])
    return number, inferred


def _by_number(calls: Calls, rows: Int64, number: Int64) -> Int64:
    """Returns match codes, which are equal for matching calls.

    Calls of one worker with the same number are a coalesced batch. Such calls match by kind and order.
    """
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


def _match_by_order(calls: Calls, known: Int64, rows: Int64, label: Int64, number: Int64) -> Int64:
    """Returns match codes of calls without a sequence number.

    Calls match by order, both with each other and with numbered calls of the same group. Numbered collectives act
    as the sequence of an additional worker. If a worker has calls with and without numbers, the numbered calls are
    aligned too.
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
        # Sender and receiver of a transfer number their calls independently.
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
    """Returns the block of each call: its group within its step. So a missing call does not shift calls of the next
    step.

    If only some workers of a group have steps, all calls of the group are one block.
    """
    group, step = calls.group[rows], calls.step[rows]
    pair = codes(group, worker)
    has = np.zeros(int(pair.max(initial=0)) + 1, np.bool_)
    has[pair[step != calls.no_step]] = True
    without, some = (np.zeros(int(calls.group.max(initial=0)) + 1, np.bool_) for _ in range(2))
    without[group[~has[pair]]] = True
    some[group[has[pair]]] = True
    return codes(group, np.where((without & some)[group], 0, step))


def _numbered_matches(worker: Int64, label: Int64, by: Int64) -> Matched:
    """Returns collectives that are matched on at least two workers, numbered from 0.

    If several calls of one worker match, only the most reliable match is used.
    """
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
    """Returns the index of each call within its block, corrected by time if a worker lacks calls of a kind.

    The calls of one collective end at nearly the same time. The clock offset of a worker is the median difference
    between ends in groups without missing calls. If all groups have missing calls, nothing is corrected.
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
    """Returns the clock offset (ns) of each call's worker within the group, and whether the offset is known.

    Only calls marked ``sure`` are used, in the collectives with the most workers in the group.
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
