"""Inference of missing or shifted sequence numbers."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import codes

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# below this share of calls with equal kinds, a worker's numbers disagree with the others
MIN_AGREEMENT = 0.5
# share of calls with equal kinds that a shift of a worker's numbers must reach
MIN_AGREEMENT_OF_SHIFT = 0.9
# maximum number of a worker's calls that vote on the shift
_MAX_VOTERS = 512
# maximum number of shifts that each call votes for
_MAX_VOTES_PER_CALL = 64
# number of shifts to try, those with most votes
_MAX_TRIED_SHIFTS = 8


class Stream(msgspec.Struct, frozen=True, eq=False):
    """Columns of calls, with the same meaning as in ``match.Calls``."""

    worker: Int64
    step: Int64
    group: Int64
    name: Int64
    kind: Int64
    no_step: int
    """Step code of calls outside the steps."""


def number_calls(calls: Stream, sequence: Int64) -> tuple[Int64, Bool]:
    """Returns the sequence number of each call in its group (-1 = none), and whether the number is inferred.

    A call next to numbered calls gets the missing number if calls with this number have the same kind on other
    workers. If most numbers of a worker disagree with other workers, the worker's numbers are shifted until nearly
    all agree. If no shift works and even the names disagree, the worker's numbers are dropped.
    """
    number, inferred = sequence.copy(), np.zeros(len(sequence), np.bool_)
    groups = int(calls.group.max(initial=0)) + 1
    lacking = np.zeros(groups, np.bool_)
    lacking[calls.group[sequence < 0]] = True
    having = np.zeros(groups, np.bool_)
    having[calls.group[sequence >= 0]] = True
    if having.any():
        _shift_numbers(calls, np.flatnonzero(sequence >= 0), number, inferred)
        if (having & lacking).any():
            _fill_gaps(calls, np.flatnonzero((having & lacking)[calls.group]), number, inferred)
    return number, inferred


def usual_kinds(place: Int64, kind: Int64, worker: Int64) -> tuple[Int64, Int64]:
    """Returns the sorted distinct values of ``place``, and the most frequent kind at each value.

    If two kinds are equally frequent, the kind of the worker with the lowest index is used.
    """
    order = np.lexsort((worker, kind, place))
    first = np.flatnonzero(np.diff(place[order], prepend=-1) | np.diff(kind[order], prepend=-1))
    count = np.diff(np.append(first, len(order)))
    head = order[first]
    best = np.lexsort((worker[head], -count, place[head]))
    places, at = np.unique(place[head][best], return_index=True)
    return places, kind[head][best][at]


def _shift_numbers(calls: Stream, rows: Int64, number: Int64, inferred: Bool) -> None:
    """Shifts or drops, in place, the sequence numbers of workers that disagree with other workers."""
    group, worker, kind = calls.group[rows], calls.worker[rows], calls.kind[rows]
    place = codes(group, number[rows])
    order = np.argsort(place, kind="stable")
    first = np.flatnonzero(np.diff(place[order], prepend=-1))
    several, alike = (
        np.minimum.reduceat(column[order], first) != np.maximum.reduceat(column[order], first)
        for column in (worker, kind)
    )
    shared = np.empty(len(rows), np.bool_)
    shared[order] = np.repeat(several, np.diff(np.append(first, len(order))))
    agrees = np.ones(len(rows), np.bool_)
    if alike.any():
        places, usual = usual_kinds(place, kind, worker)
        agrees = usual[np.searchsorted(places, place)] == kind
    pair = codes(group, worker)
    shared_calls, agreed = np.bincount(pair, weights=shared), np.bincount(pair, weights=shared & agrees)
    odd = np.where(shared_calls > 0, agreed < MIN_AGREEMENT * shared_calls, np.bincount(pair) > 0)[pair]
    some = np.isin(group, group[odd])
    order = np.flatnonzero(some)[np.argsort(group[some], kind="stable")]
    for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        if len(members) and worker[members].min() != worker[members].max():
            _shift_group(calls, rows[members], odd[members], number, inferred)


def _shift_group(calls: Stream, rows: Int64, odd: Bool, number: Int64, inferred: Bool) -> None:
    """Shifts or drops, in place, sequence numbers within one group.

    ``odd`` marks the calls of workers that disagree with other workers.
    """
    worker = calls.worker[rows]
    if odd.all():
        odd = worker != worker.min()
    base = rows[~odd]
    numbers, first = np.unique(number[base], return_index=True)
    kinds, names, steps = (column[base][first] for column in (calls.kind, calls.name, calls.step))
    order = np.flatnonzero(odd)[np.argsort(worker[odd], kind="stable")]
    for at in np.split(order, np.flatnonzero(np.diff(worker[order])) + 1):
        mine = rows[at]
        is_common = np.isin(number[mine], numbers)
        # Without common numbers the calls may be of different times, so only calls of the same step are compared.
        voting = mine if is_common.any() else mine[calls.step[mine] != calls.no_step]
        shift = _best_shift(calls, voting[:: max(1, len(voting) // _MAX_VOTERS)], mine, number, (numbers, kinds, steps))
        if shift is not None:
            number[mine] += shift
            inferred[mine] = True
        elif is_common.any():
            at = np.searchsorted(numbers, number[mine[is_common]])
            if (names[at] == calls.name[mine[is_common]]).mean() < MIN_AGREEMENT:
                number[mine] = -1


def _best_shift(
    calls: Stream, voting: Int64, mine: Int64, number: Int64, reference: tuple[Int64, Int64, Int64]
) -> int | None:
    """Returns the shift after which the sequence numbers of a worker agree with other workers, or None."""
    numbers, kinds, steps = reference
    both = codes(np.concatenate((kinds, calls.kind[voting])), np.concatenate((steps, calls.step[voting])))
    reference_codes, voter_codes = both[: len(numbers)], both[len(numbers) :]
    order = np.argsort(reference_codes, kind="stable")
    low = np.searchsorted(reference_codes[order], voter_codes, side="left")
    count = np.minimum(np.searchsorted(reference_codes[order], voter_codes, side="right") - low, _MAX_VOTES_PER_CALL)
    place = np.repeat(low - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
    distance, votes = np.unique(numbers[order][place] - np.repeat(number[voting], count), return_counts=True)
    best, most = None, len(mine) // 2
    for shift in distance[np.argsort(-votes, kind="stable")][:_MAX_TRIED_SHIFTS].tolist():
        at = np.minimum(np.searchsorted(numbers, number[mine] + shift), len(numbers) - 1)
        is_common = numbers[at] == number[mine] + shift
        agree = int((is_common & (kinds[at] == calls.kind[mine])).sum())
        if agree > most and agree >= MIN_AGREEMENT_OF_SHIFT * int(is_common.sum()):
            best, most = shift, agree
    return best


def _fill_gaps(calls: Stream, rows: Int64, number: Int64, inferred: Bool) -> None:
    """Sets, in place, the sequence numbers of calls between or next to numbered calls of the same worker."""
    pair = codes(calls.group[rows], calls.worker[rows])
    order = rows[np.argsort(pair, kind="stable")]
    pair = np.sort(pair)
    n, at = len(order), np.arange(len(order))
    has = number[order] >= 0
    before = np.maximum.accumulate(np.where(has, at, -1))
    after = np.minimum.accumulate(np.where(has, at, n)[::-1])[::-1]
    preceded = (before >= 0) & (pair[before] == pair)
    followed = (after < n) & (pair[np.minimum(after, n - 1)] == pair)
    ahead = number[order][before] + at - before
    behind = number[order][np.minimum(after, n - 1)] - (after - at)
    guess = np.where(preceded, ahead, behind)
    fits = ~has & (preceded | followed) & (guess >= 0) & (~(preceded & followed) | (ahead == behind))
    if not has.any() or not fits.any():
        return
    known = order[has]
    mark = codes(
        np.concatenate((calls.group[known], calls.group[order[fits]])), np.concatenate((number[known], guess[fits]))
    )
    places, usual = usual_kinds(mark[: len(known)], calls.kind[known], calls.worker[known])
    found = np.minimum(np.searchsorted(places, mark[len(known) :]), len(places) - 1)
    right = (places[found] == mark[len(known) :]) & (usual[found] == calls.kind[order[fits]])
    number[order[fits][right]] = guess[fits][right]
    inferred[order[fits][right]] = True
