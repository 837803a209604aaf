"""Arrivals at collectives, and the cost of the last arrival.

A synchronizing collective ends at the same time on all ranks, so a later arrival means a shorter call. Durations
therefore show the order of arrivals even without clocks. All ranks continue together after a collective, so a delay
only shows at the next collective, and delays do not accumulate.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import codes, median_by, occurrence
from tb_plugin.views.distributed.stragglers.calls import UNKNOWN, StragglerCalls
from tb_plugin.views.distributed.stragglers.missing_calls import Lost, PairCalls, lost_calls
from tb_plugin.views.distributed.stragglers.propagated_delay import inherited_cost_ns
from tb_plugin.views.distributed.waiting import ESTIMATED, MEASURED, TIMINGS

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class Arrivals(msgspec.Struct, frozen=True, eq=False):
    """Calls of collectives with at least two workers, sorted by collective and arrival.

    If the call of the last worker is missing, a synthetic call replaces the missing call. ``last`` and all columns
    after ``last`` have one value per collective.
    """

    calls: StragglerCalls
    row: Int64
    """Row in ``calls``; -1 for a synthetic call."""
    worker: Int64
    late_ns: Int64
    """Arrival minus the median arrival at the collective."""
    spread_ns: Int64
    """Arrival minus the median arrival of all ranks except the last. So one very late rank has no effect."""
    collective: Int64
    """Index of the collective, from 0."""
    last: Int64
    """Index in this table of the last call to arrive."""
    before: Int64
    """Row in ``calls`` of the reference call: usually the last arrival but one."""
    step: Int64
    group: Int64
    raw_ns: Int64
    """Last arrival minus the arrival of the reference call; 0 if within noise."""
    inherited_ns: Int64
    """Part of the cost that other ranks cause.

    The last worker waited in other groups after this group last blocked it.
    """
    low_ns: Int64
    high_ns: Int64
    """Upper bound of the time saved if the last worker were not delayed.

    This is how much longer the collective blocks the reference worker than the last worker, minus ``inherited_ns``.
    The lower bound is ``low_ns``. It only includes wait that is certain and overlaps with no other work.
    """
    is_reliable: Bool
    """Whether the worker itself is late, rather than the start of its profiler."""
    sure: Bool
    """Whether all ranks of the group are loaded, so that no missing rank can be later."""

    @property
    def culprit(self) -> Int64:
        """Returns the worker that arrives last at each collective."""
        return self.worker[self.last]


def arrivals(calls: StragglerCalls) -> Arrivals:
    """Returns the arrivals at collectives, and the cost of the last arrival at each collective."""
    lost, pair_calls = lost_calls(calls)
    rows = np.flatnonzero((calls.match >= 0) & ~calls.two_ended)
    matches, which = np.unique(calls.match[rows], return_inverse=True)
    rows = np.concatenate((rows, pair_calls.row))
    which = np.concatenate((which.astype(np.int64), len(matches) + np.arange(len(pair_calls.row))))
    arrival = _arrival(calls, rows, which)
    row, worker, which, arrival, time_ns = _with_missing(calls, rows, which, arrival, pair_calls)
    order = np.lexsort((worker, arrival, which))
    row, worker, which, arrival, time_ns = (each[order] for each in (row, worker, which, arrival, time_ns))
    first = np.flatnonzero(np.diff(which, prepend=-1))
    count = np.diff(np.append(first, len(which)))
    last = first + count - 1
    middle = (arrival[first + (count - 1) // 2] + arrival[first + count // 2]) // 2
    others = (arrival[first + np.maximum(count - 2, 0) // 2] + arrival[first + (count - 1) // 2]) // 2
    # The first arrival is never synthetic.
    opening, next_to_last = row[first], _next_to_last(calls, row, arrival, first, last)
    before = row[next_to_last]
    raw = arrival[last] - arrival[next_to_last]
    noise = np.maximum(calls.noise_ns[np.maximum(row[last], 0)], calls.noise_ns[before])
    is_real, late = row[last] >= 0, np.maximum(row[last], 0)
    excused = np.where(
        is_real, calls.excused_ns[late], _max_per_collective(calls.excused_ns[np.maximum(row, 0)], first)
    )
    raw = raw - np.minimum(excused, raw)
    is_known = (count > 1) & ((excused <= 0) | (raw > noise))
    raw = np.where((raw > noise) & is_known, raw, 0)
    blocked = calls.blocked_ns[before]
    usual = _usually_blocked(calls, row, worker, which, first, last)
    lacking = np.where(usual >= 0, np.maximum(blocked - usual, 0), np.minimum(blocked, raw))
    cost = np.where(is_real, np.maximum(blocked - calls.blocked_ns[late], 0), lacking)
    cost = np.where(raw > 0, np.maximum(cost - excused, 0), 0)
    made_up = Lost(worker[last], calls.group[opening], time_ns[last], np.zeros(len(last), np.int64))
    held_up_ns = inherited_cost_ns(calls, row[last], made_up, lost, pair_calls, before, cost)
    own = cost - held_up_ns
    hidden = calls.dur_ns[before] - blocked
    return Arrivals(
        calls=calls,
        row=row,
        worker=worker,
        late_ns=arrival - middle[which],
        spread_ns=arrival - others[which],
        collective=which,
        last=last,
        before=before,
        step=calls.step[opening],
        group=calls.group[opening],
        raw_ns=raw,
        inherited_ns=held_up_ns,
        low_ns=np.clip(raw - hidden - held_up_ns, 0, own),
        high_ns=own,
        is_reliable=is_known,
        sure=is_real & (calls.waiting.timing[opening] == TIMINGS.index(MEASURED)),
    )


def _max_per_collective(value: Int64, first: Int64) -> Int64:
    return np.maximum.reduceat(value, first) if len(first) else np.zeros(0, np.int64)


def _arrival(calls: StragglerCalls, rows: Int64, which: Int64) -> Int64:
    """Returns arrival times that are comparable within a collective.

    If the clocks of all workers are known, arrival times are corrected times, otherwise negative durations.
    """
    count = int(which.max(initial=-1)) + 1
    late = calls.lateness_ns[rows]
    blind = np.zeros(count, np.bool_)
    blind[which[late == UNKNOWN]] = True
    return np.where(blind[which], -calls.dur_ns[rows], late)


def _next_to_last(calls: StragglerCalls, row: Int64, arrival: Int64, first: Int64, last: Int64) -> Int64:
    """Returns the index of the second-to-last arrival at each collective. Calls must be sorted by arrival.

    If several workers arrive almost together, their clocks determine the order. An order by duration would prefer
    calls that ended early by chance, and this bias would add up over many collectives.
    """
    found = np.maximum(last - 1, first)
    which = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(row))))
    mine = np.maximum(row, 0)
    away = arrival[found][which] - arrival
    level = (row >= 0) & (calls.level_ns[mine] != UNKNOWN)
    level &= away <= calls.level_noise_ns[mine] + calls.level_noise_ns[mine[found]][which]
    level[last] = False
    late = np.where(level, calls.level_ns[mine], UNKNOWN)
    best = np.maximum.reduceat(late, first) if len(first) else late
    chosen = np.flatnonzero(level & (late == best[which]))[::-1]
    found[which[chosen]] = chosen
    return found


def _usually_blocked(
    calls: StragglerCalls, row: Int64, worker: Int64, which: Int64, first: Int64, last: Int64
) -> Int64:
    """Returns the time that each synthetic call would block its worker, ns.

    The time is the median over the steps in which the worker is last at the same call. Real calls and unknown times
    have the value -1.
    """
    made_up = np.flatnonzero(row[last] < 0)
    found = np.full(len(last), -1)
    if not len(made_up):
        return found
    number = occurrence(codes(calls.worker, calls.group, calls.step))
    # A worker with missing calls counts too few calls, so the largest place is used.
    place = np.maximum.reduceat(np.where(row >= 0, number[np.maximum(row, 0)], -1), first)
    key = codes(worker[last], calls.group[row[first]], place)
    known = np.flatnonzero(row[last] >= 0)
    count = int(key.max()) + 1
    usual = median_by(key[known], calls.blocked_ns[row[last[known]]], count)
    has_usual = np.bincount(key[known], minlength=count) > 0
    found[made_up] = np.where(has_usual[key[made_up]], usual[key[made_up]], -1)
    return found


def _with_missing(
    calls: StragglerCalls, rows: Int64, which: Int64, arrival: Int64, pair_calls: PairCalls
) -> tuple[Int64, Int64, Int64, Int64, Int64]:
    """Adds an arrival for each worker that presumably arrived last and whose call is missing.

    ``waiting`` estimates some of these workers. The others are in ``pair_calls``, whose calls are the last entries
    of ``rows``. The last result has the corrected times of added arrivals, and UNKNOWN for all other rows.
    """
    waiting = calls.waiting
    some = np.flatnonzero((waiting.timing[rows] == TIMINGS.index(ESTIMATED)) & (waiting.last[rows] >= 0))
    # All others wait for the missing rank: it arrives after the latest of them by that rank's excess duration.
    order = some[np.lexsort((arrival[some], which[some]))]
    end = np.flatnonzero(np.diff(which[order], append=-1))
    latest, before = order[end], order[np.maximum(end - 1, 0)]
    later = calls.dur_ns[rows[latest]] - waiting.transfer_ns[rows[latest]]
    # If another rank is much later and the rest is noise, all ranks wait for that one.
    latest = latest[later >= arrival[latest] - arrival[before]]
    who, later = waiting.last[rows[latest]], (calls.dur_ns - waiting.transfer_ns)[rows[latest]]
    latest = np.concatenate((latest, len(rows) - len(pair_calls.row) + np.arange(len(pair_calls.row))))
    who, later = np.concatenate((who, pair_calls.other)), np.concatenate((later, pair_calls.wait_ns))
    known = calls.time_ns[rows[latest]] != UNKNOWN
    return (
        np.concatenate((rows, np.full(len(latest), -1))),
        np.concatenate((calls.worker[rows], who)),
        np.concatenate((which, which[latest])),
        np.concatenate((arrival, arrival[latest] + later)),
        np.concatenate((np.full(len(rows), UNKNOWN), np.where(known, calls.time_ns[rows[latest]] + later, UNKNOWN))),
    )
