"""Inherited lateness of workers that waited in other groups before."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import codes
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.views.distributed.stragglers.calls import UNKNOWN, StragglerCalls
from tb_plugin.views.distributed.stragglers.missing_calls import NONE_ALONE, NONE_LOST, Lost, PairCalls

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


def inherited_cost_ns(
    straggler_calls: StragglerCalls,
    last: Int64,
    made_up: Lost,
    lost: Lost,
    alone: PairCalls,
    before: Int64,
    cost: Int64,
) -> Int64:
    """Returns the inherited part of each cost, ns.

    This is how much longer the last worker waited in other groups than the reference worker. It is subtracted so
    that a rank delayed in one group is not blamed again in the next. ``made_up`` has the times of synthetic last
    calls (``last`` is -1). ``lost`` has all other missing calls.
    """
    if len(np.unique(codes(straggler_calls.group, straggler_calls.two_ended.astype(np.int64)))) < 2:
        return np.zeros(len(cost), np.int64)
    timed, calls = np.flatnonzero((last < 0) & (made_up.time_ns != UNKNOWN)), len(straggler_calls.worker)
    missing = made_up.take(timed).and_also(lost)
    # The unmodified result is cached and used again by ``roots``.
    is_complete = not len(missing.worker) and not len(alone.row)
    waited = waited_elsewhere(straggler_calls) if is_complete else _waited_elsewhere(straggler_calls, missing, alone)
    mine = np.where(last >= 0, waited[np.maximum(last, 0)], 0)
    mine[timed] = waited[calls : calls + len(timed)]
    return np.clip(mine - waited[before], 0, cost)


@cached_by_argument
def waited_elsewhere(calls: StragglerCalls) -> Int64:
    """Returns how long each call's worker waited in other groups since its group last blocked it, ns.

    A blocking call synchronizes its ranks. A call that overlaps with compute does not. If another group contains
    all ranks of the group, its calls count as calls of the group. If one end of a message is unknown, the whole
    duration of the call counts as wait.
    """
    return _waited_elsewhere(calls, NONE_LOST, NONE_ALONE)


def _waited_elsewhere(calls: StragglerCalls, lost: Lost, alone: PairCalls) -> Int64:
    """``waited_elsewhere`` for each call, followed by each missing call. Unmatched calls in ``alone`` also wait."""
    added = np.zeros(len(lost.worker), np.int64)
    wait = np.where(
        calls.match >= 0, calls.dur_ns - calls.waiting.transfer_ns, np.where(calls.two_ended, calls.dur_ns, 0)
    )
    wait[alone.row] = alone.wait_ns
    wait = np.concatenate((np.minimum(wait, calls.blocked_ns), lost.wait_ns))
    worker, blocked = np.concatenate((calls.worker, lost.worker)), np.concatenate((calls.blocked_ns, added + 1))
    two_ended = np.concatenate((calls.two_ended, added > 0))
    group = codes(np.concatenate((calls.group, lost.group)), two_ended.astype(np.int64))
    if not len(added):
        return _waited_in_order(worker, group, two_ended, wait, blocked)
    order = np.lexsort((np.concatenate((calls.time_ns, lost.time_ns)), worker))
    found = np.empty(len(worker), np.int64)
    found[order] = _waited_in_order(worker[order], group[order], two_ended[order], wait[order], blocked[order])
    return found


def _waited_in_order(worker: Int64, group: Int64, two_ended: Bool, wait: Int64, blocked: Int64) -> Int64:
    """``waited_elsewhere`` for calls that are sorted by time within each worker."""
    every = _sum_before(np.argsort(worker, kind="stable"), worker, wait)
    row, of = _with_subgroups(worker, group, two_ended)
    own = codes(worker[row], of)
    order = np.argsort(own, kind="stable")
    others = every[row] - _sum_before(order, own, wait[row])
    found = others[order]
    # Wait in other groups up to the previous blocking call; 0 for the first call of a worker.
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


def _with_subgroups(worker: Int64, group: Int64, two_ended: Bool) -> tuple[Int64, Int64]:
    """Repeats each call for its group and for every subset of that group among the worker's groups, in call order."""
    rows = np.arange(len(worker))
    _, place = np.unique(codes(worker, group), return_index=True)
    # Point-to-point calls do not synchronize groups.
    place = place[~two_ended[place]]
    workers, its = worker[place], group[place]
    size = np.bincount(its, minlength=int(group.max(initial=-1)) + 1)
    # Pairs of groups with each common worker.
    order = np.argsort(workers, kind="stable")
    workers, its = workers[order], its[order]
    many = np.bincount(workers, minlength=int(worker.max(initial=-1)) + 1)
    start = np.cumsum(many) - many
    left = np.repeat(np.arange(len(workers)), many[workers])
    right = (
        start[workers[left]] + np.arange(len(left)) - np.repeat(np.cumsum(many[workers]) - many[workers], many[workers])
    )
    outer, inner = its[left], its[right]
    pair = codes(outer, inner)
    common = np.bincount(pair, minlength=int(pair.max(initial=-1)) + 1)[pair]
    whole = (common == size[inner]) & (outer != inner)
    left, inner = left[whole], inner[whole]
    # Calls of the outer group, once per inner group.
    outer_key = codes(np.concatenate((worker, workers[left])), np.concatenate((group, outer[whole])))
    mine, wanted = outer_key[: len(worker)], outer_key[len(worker) :]
    order = np.argsort(wanted, kind="stable")
    count = np.bincount(wanted, minlength=int(outer_key.max(initial=-1)) + 1)
    begin = np.cumsum(count) - count
    more = count[mine]
    added = np.repeat(rows, more)
    at = np.repeat(begin[mine], more) + np.arange(len(added)) - np.repeat(np.cumsum(more) - more, more)
    row, of = np.concatenate((rows, added)), np.concatenate((group, inner[order[at]]))
    in_time = np.argsort(row, kind="stable")
    return row[in_time], of[in_time]


def _sum_before(order: Int64, key: Int64, value: Int64) -> Int64:
    """Sum over the earlier rows with the same key. ``order`` sorts the rows by key."""
    total = np.cumsum(value[order]) - value[order]
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    total -= np.repeat(total[first], np.diff(np.append(first, len(key))))
    found = np.empty(len(key), np.int64)
    found[order] = total
    return found
