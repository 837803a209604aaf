"""Arrivals at collectives, and the cost of the last arrival.

A collective ends at the same time on all ranks, so a later arrival means a shorter call. Durations therefore show the
order of arrivals without clocks. All ranks continue together after a collective, so a delay only shows at the next
collective, and delays do not accumulate.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import codes
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.views.distributed.waiting import Waiting


class StragglerCalls(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Calls of all workers: one row per call, sorted by worker and time."""

    worker: Int64
    step: Int64
    group: Int64
    stream: Int64
    two_ended: Bool
    """Marks point-to-point calls. Their receiver waits for the sender by design, so they have no late rank."""
    counted: Bool
    """Marks calls that show which rank is late.

    These are calls of synchronizing collectives that all loaded ranks have, except those after a late recording start.
    """
    start_ns: Int64
    dur_ns: Int64
    blocked_ns: Int64
    """Time in the call during which no compute and no later call runs; the whole duration if unknown."""
    match: Int64
    waiting: Waiting

    @property
    def wait_ns(self) -> Int64:
        """Returns the wait for other workers in each call. If one end of a message is unknown, all of it is wait."""
        unknown = np.where(self.two_ended, self.dur_ns, 0)
        return np.where(self.match >= 0, self.dur_ns - self.waiting.transfer_ns, unknown)


class Arrivals(msgspec.Struct, frozen=True, eq=False):
    """Counted calls, sorted by collective and arrival.

    ``last`` and all columns after ``last`` have one value per collective.
    """

    calls: StragglerCalls
    row: Int64
    """Row in ``calls``."""
    worker: Int64
    late_ns: Int64
    """Arrival minus the median arrival of all workers but the last."""
    collective: Int64
    """Index of the collective, from 0."""
    last: Int64
    """Index in this table of the last call to arrive."""
    before: Int64
    """Row in ``calls`` of the last arrival but one."""
    step: Int64
    group: Int64
    raw_ns: Int64
    """Last arrival minus the arrival before it."""
    inherited_ns: Int64
    """Part of ``raw_ns`` that other ranks cause: the last worker waited in other groups before."""
    cost_ns: Int64
    """Upper bound of the time saved if the last worker were not delayed.

    This is how much longer the collective blocks the worker before the last than the last worker, without inherited
    delay.
    """

    @property
    def culprit(self) -> Int64:
        """Returns the worker that arrives last at each collective."""
        return self.worker[self.last]


def arrivals(calls: StragglerCalls) -> Arrivals:
    """Returns the arrivals at collectives, and the cost of the last arrival at each collective."""
    rows = np.flatnonzero(calls.counted)
    row = rows[np.lexsort((calls.worker[rows], -calls.dur_ns[rows], calls.match[rows]))]
    arrival, match = -calls.dur_ns[row], calls.match[row]
    first = np.flatnonzero(np.diff(match, prepend=-1))
    count = np.diff(np.append(first, len(row)))
    last, collective = first + count - 1, np.repeat(np.arange(len(first)), count)
    middle = (arrival[first + np.maximum(count - 2, 0) // 2] + arrival[first + (count - 1) // 2]) // 2
    late, previous = row[last], row[np.maximum(last - 1, first)]
    raw = arrival[last] - arrival[np.maximum(last - 1, first)]
    elsewhere = waited_elsewhere(calls)
    inherited = np.clip(elsewhere[late] - elsewhere[previous], 0, raw)
    cost = np.clip(calls.blocked_ns[previous] - calls.blocked_ns[late] - inherited, 0, None)
    return Arrivals(
        calls=calls,
        row=row,
        worker=calls.worker[row],
        late_ns=arrival - middle[collective],
        collective=collective,
        last=last,
        before=previous,
        step=calls.step[late],
        group=calls.group[late],
        raw_ns=raw,
        inherited_ns=inherited,
        cost_ns=np.where(raw > 0, cost, 0),
    )


@cached_by_argument
def waited_elsewhere(calls: StragglerCalls) -> Int64:
    """Returns how long each call's worker waited in other groups since the call's group last synchronized, ns."""
    wait = np.minimum(calls.wait_ns, calls.blocked_ns)
    until = np.cumsum(wait)
    before = until - wait
    opening = np.maximum.accumulate(np.where(np.diff(calls.worker, prepend=-1) != 0, np.arange(len(wait)), 0))
    sync = previous_syncs(calls)
    return before - np.where(sync >= 0, until[sync], before[opening])


@cached_by_argument
def previous_syncs(calls: StragglerCalls) -> Int64:
    """Returns the previous call that synchronized the ranks of each call's group; -1 = none.

    A call that overlaps with compute does not synchronize. A call of a larger group synchronizes all groups within it.
    """
    many, group = len(calls.worker), codes(calls.group, calls.two_ended.astype(np.int64))
    row, of = _with_subgroups(calls, group, np.flatnonzero(calls.blocked_ns > 0))
    pair = codes(np.concatenate((calls.worker[row], calls.worker)), np.concatenate((of, group)))
    synced = np.sort(pair[: len(row)] * many + row)
    asked = pair[len(row) :] * many + np.arange(many)
    at = np.searchsorted(synced, asked, side="left") - 1
    found = np.append(synced, -1)[at]
    return np.where((found >= 0) & (found // max(many, 1) == pair[len(row) :]), found % max(many, 1), -1)


def _with_subgroups(calls: StragglerCalls, group: Int64, rows: Int64) -> tuple[Int64, Int64]:
    """Repeats each call for its group, and for each subset of this group among the worker's groups."""
    _, first, entry = np.unique(codes(calls.worker, group), return_index=True, return_inverse=True)
    worker, its, is_pair = calls.worker[first], group[first], calls.two_ended[first]
    many = np.bincount(worker)
    left = np.repeat(np.arange(len(first)), many[worker])
    right = _ranges((np.cumsum(many) - many)[worker], many[worker])
    both = codes(its[left], its[right])
    is_within = np.bincount(both)[both] == np.bincount(its)[its[right]]
    is_within &= (left != right) & ~is_pair[left] & ~is_pair[right]
    left, right = left[is_within], right[is_within]
    subsets = np.bincount(left, minlength=len(first))
    at = _ranges((np.cumsum(subsets) - subsets)[entry[rows]], subsets[entry[rows]])
    added = np.repeat(rows, subsets[entry[rows]])
    return np.concatenate((rows, added)), np.concatenate((group[rows], its[right[at]]))


def _ranges(start: Int64, count: Int64) -> Int64:
    """Returns the concatenated ranges of ``count`` integers from each ``start``."""
    return np.repeat(start - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
