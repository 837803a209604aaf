"""Inherited lateness: the worker waited elsewhere before."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.codes import codes
from tb_plugin.lib.model_cache import remembered
from tb_plugin.views.distributed.stragglers.calls import UNKNOWN, StragglerCalls
from tb_plugin.views.distributed.stragglers.missing_calls import NONE_ALONE, NONE_LOST, Lost, PairCalls

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


def inherited(
    met: StragglerCalls, last: Int64, made_up: Lost, lost: Lost, alone: PairCalls, before: Int64, cost: Int64
) -> Int64:
    """Returns the inherited part of each cost: the last worker waited longer in other groups than the one before it.

    Without this, a rank that is delayed in one group would be blamed in the next one, too. ``made_up`` has the time of
    synthetic last calls (``last`` is -1); ``lost`` are other missing calls.
    """
    if len(np.unique(codes(met.group, met.two_ended.astype(np.int64)))) < 2:
        return np.zeros(len(cost), np.int64)
    asked, calls = np.flatnonzero((last < 0) & (made_up.time_ns != UNKNOWN)), len(met.worker)
    missing = made_up.take(asked).and_also(lost)
    # The unmodified result is cached and used again by ``roots``.
    whole = not len(missing.worker) and not len(alone.row)
    waited = waited_elsewhere(met) if whole else _waited_elsewhere(met, missing, alone)
    mine = np.where(last >= 0, waited[np.maximum(last, 0)], 0)
    mine[asked] = waited[calls : calls + len(asked)]
    return np.clip(mine - waited[before], 0, cost)


@remembered
def waited_elsewhere(met: StragglerCalls) -> Int64:
    """Returns how long each call's worker waited in other groups since its own group last blocked it, ns.

    A blocking call synchronizes its ranks; a call that overlaps with compute does not. A call of a group that contains all
    workers of the own group counts as one of its own. For a message with an unknown other end, all of its time may be wait.
    """
    return _waited_elsewhere(met, NONE_LOST, NONE_ALONE)


def _waited_elsewhere(met: StragglerCalls, lost: Lost, alone: PairCalls) -> Int64:
    """The same for each call, then each missing one; unmatched calls in ``alone`` wait as well."""
    added = np.zeros(len(lost.worker), np.int64)
    wait = np.where(met.match >= 0, met.dur_ns - met.waiting.transfer_ns, np.where(met.two_ended, met.dur_ns, 0))
    wait[alone.row] = alone.wait_ns
    wait = np.concatenate((np.minimum(wait, met.blocked_ns), lost.wait_ns))
    worker, blocked = np.concatenate((met.worker, lost.worker)), np.concatenate((met.blocked_ns, added + 1))
    two_ended = np.concatenate((met.two_ended, added > 0))
    group = codes(np.concatenate((met.group, lost.group)), two_ended.astype(np.int64))
    if not len(added):
        return _in_order(worker, group, two_ended, wait, blocked)
    order = np.lexsort((np.concatenate((met.time_ns, lost.time_ns)), worker))
    found = np.empty(len(worker), np.int64)
    found[order] = _in_order(worker[order], group[order], two_ended[order], wait[order], blocked[order])
    return found


def _in_order(worker: Int64, group: Int64, two_ended: Bool, wait: Int64, blocked: Int64) -> Int64:
    """The same for calls sorted by time within each worker."""
    every = _before(np.argsort(worker, kind="stable"), worker, wait)
    row, of = _together_with(worker, group, two_ended)
    own = codes(worker[row], of)
    order = np.argsort(own, kind="stable")
    others = every[row] - _before(order, own, wait[row])
    found = others[order]
    # Wait elsewhere up to the previous blocking call; 0 up to the first call of a worker.
    first = np.flatnonzero(np.diff(own[order], prepend=-1))
    blocks = np.concatenate(([False], blocked[row[order]][:-1] > 0))
    blocks[first] = True
    base = np.concatenate(([0], found[:-1]))
    base[first] = 0
    since = found - base[np.maximum.accumulate(np.where(blocks, np.arange(len(found)), 0))]
    elsewhere = np.empty(len(wait), np.int64)
    itself = (of == group[row])[order]
    elsewhere[row[order][itself]] = since[itself]
    return elsewhere


def _together_with(worker: Int64, group: Int64, two_ended: Bool) -> tuple[Int64, Int64]:
    """Each call with its group, and with each other group of its worker that is a subset of this group; in order."""
    rows = np.arange(len(worker))
    _, place = np.unique(codes(worker, group), return_index=True)
    # Point-to-point calls do not synchronize groups.
    place = place[~two_ended[place]]
    held, its = worker[place], group[place]
    size = np.bincount(its, minlength=int(group.max(initial=-1)) + 1)
    # Pairs of groups with each common worker.
    order = np.argsort(held, kind="stable")
    held, its = held[order], its[order]
    many = np.bincount(held, minlength=int(worker.max(initial=-1)) + 1)
    start = np.cumsum(many) - many
    left = np.repeat(np.arange(len(held)), many[held])
    right = start[held[left]] + np.arange(len(left)) - np.repeat(np.cumsum(many[held]) - many[held], many[held])
    outer, inner = its[left], its[right]
    pair = codes(outer, inner)
    common = np.bincount(pair, minlength=int(pair.max(initial=-1)) + 1)[pair]
    whole = (common == size[inner]) & (outer != inner)
    left, inner = left[whole], inner[whole]
    # Calls of the outer group, once per inner group.
    outer_key = codes(np.concatenate((worker, held[left])), np.concatenate((group, outer[whole])))
    mine, asked = outer_key[: len(worker)], outer_key[len(worker) :]
    order = np.argsort(asked, kind="stable")
    count = np.bincount(asked, minlength=int(outer_key.max(initial=-1)) + 1)
    begin = np.cumsum(count) - count
    more = count[mine]
    added = np.repeat(rows, more)
    at = np.repeat(begin[mine], more) + np.arange(len(added)) - np.repeat(np.cumsum(more) - more, more)
    row, of = np.concatenate((rows, added)), np.concatenate((group, inner[order[at]]))
    in_time = np.argsort(row, kind="stable")
    return row[in_time], of[in_time]


def _before(order: Int64, key: Int64, value: Int64) -> Int64:
    """Sum of a value over the earlier rows of each row's key; ``order`` sorts rows by key."""
    total = np.cumsum(value[order]) - value[order]
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    total -= np.repeat(total[first], np.diff(np.append(first, len(key))))
    found = np.empty(len(key), np.int64)
    found[order] = total
    return found
