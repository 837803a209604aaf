"""Activities of workers between collectives of a group."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import codes, median_by, side_by_side, sum_by
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.views.distributed.stragglers.calls import StragglerCalls
from tb_plugin.views.distributed.waiting import ESTIMATED, TIMINGS

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

COMPUTE, IDLE = "compute", "idle"


@cached_by_argument
def first_of_burst(calls: StragglerCalls) -> Int64:
    """Returns, for each call, the first call of its burst.

    A burst is a set of concurrent calls of one worker and group.
    """
    own = codes(calls.worker, calls.group)
    order = np.lexsort((calls.start_ns, own))
    opens = np.diff(own[order], prepend=-1) != 0
    start, end = side_by_side((own[order], calls.start_ns[order]), (own[order], (calls.start_ns + calls.dur_ns)[order]))
    opens[1:] |= start[1:] >= np.maximum.accumulate(end)[:-1]
    first = np.empty(len(order), np.int64)
    first[order] = order[np.maximum.accumulate(np.where(opens, np.arange(len(order)), 0))]
    return first


def _overlapped_compute(calls: StragglerCalls, first: Int64, until_ns: Int64) -> Int64:
    """Returns a lower bound of the compute time from the start of each call to ``until_ns``.

    The lower bound is the time during which no call blocks the worker.
    """
    order = np.lexsort((calls.start_ns, calls.worker))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    many = len(order)
    worker = np.concatenate((calls.worker[order], calls.worker[first]))
    (time,) = side_by_side((worker, np.concatenate((calls.start_ns[order], until_ns))))
    total = np.append(0, np.cumsum(calls.blocked_ns[order]))
    later, mine = np.searchsorted(time[:many], time[many:], side="left"), place[first]
    hidden: Int64 = np.maximum(until_ns - calls.start_ns[first] - (total[np.maximum(later, mine + 1)] - total[mine]), 0)
    return hidden


class Stretches(msgspec.Struct, frozen=True, eq=False):
    """Activities of each worker before each burst of a group. A burst is a set of concurrent calls."""

    burst: Int64
    """Burst of each call. The bursts of a worker and group have consecutive indices in time order."""
    before: Int64
    """Last matched call of the worker and group before the burst of each call; -1 = none."""
    opens: Int64
    """Step in which the worker first called the group, for each call."""
    _first: Int64
    """First burst of the worker and group of each call."""
    _gone: Mapping[str, Int64]
    """Cumulative time of each component before bursts. It includes compute during the previous burst."""
    _waited: Int64
    """Cumulative time that bursts block the worker."""
    _unknown: Int64
    """Cumulative number of bursts with unknown activities before them."""
    _calls: StragglerCalls

    def same_call(self, leader: Int64, of: Int64) -> Int64:
        """Returns the previous collective of each leader, as called by the worker of each call in ``of``.

        The value is -1 if the worker did not call this collective before its burst.
        """
        match, worker, before = self._calls.match, self._calls.worker, self.before[leader]
        is_wanted = np.zeros(int(match.max(initial=-1)) + 2, np.bool_)  # the last entry is for unmatched calls
        is_wanted[match[before[before >= 0]]] = True
        rows = np.flatnonzero(is_wanted[match])
        key = codes(np.concatenate((match[rows], match[before])), np.concatenate((worker[rows], worker[of])))
        at = np.full(int(key.max(initial=-1)) + 1, -1)
        at[key[: len(rows)]] = rows
        found = np.where(before >= 0, at[key[len(rows) :]], -1)
        return np.where(self.burst[found] < self.burst[of], found, -1)

    def since(self, call: Int64, before: Int64) -> Int64:
        """Returns the burst after the call ``before``, or the first burst of the worker and group if ``before`` is
        -1.
        """
        return np.where(before >= 0, self.burst[before] + 1, self._first[call])

    def is_complete(self, call: Int64, since: Int64) -> Bool:
        """Returns whether all activities between the burst ``since`` and a call are known."""
        known: Bool = self._unknown[self.burst[call] + 1] == self._unknown[since]
        return known

    def done(self, key: str, call: Int64, since: Int64) -> Int64:
        """Returns the time of a component between the burst ``since`` and a call, ns.

        Bursts in between count as idle time, as on workers without these calls.
        """
        gone, burst = self._gone[key], self.burst[call]
        done: Int64 = gone[burst + 1] - gone[since]
        return done + (self._waited[burst] - self._waited[since]) if key == IDLE else done


def activities_before_bursts(calls: StragglerCalls, before: Mapping[str, Int64], first: Int64) -> Stretches:
    """Returns the activities before each burst.

    ``before`` has the time of each component before each call (-1 = unknown). ``first`` is the result of
    ``first_of_burst``. A rank may compute while its overlapped collective waits for the straggler. This compute
    time counts for the time before the next call.
    """
    own = codes(calls.worker, calls.group)
    # Rows of a worker are sorted by time.
    order = np.argsort(own, kind="stable")
    opening = order[first[order] == order]
    number = np.empty(len(own), np.int64)
    number[opening] = np.arange(len(opening))
    burst = number[first]
    end = np.full(len(opening), np.iinfo(np.int64).min)
    np.maximum.at(end, burst, calls.start_ns + calls.dur_ns)
    # If a worker lacks the call, the others wait for it if it arrived last; otherwise it waits like them.
    came_last = calls.waiting.timing == TIMINGS.index(ESTIMATED)
    took, has_met = np.where(came_last, calls.waiting.transfer_ns, calls.dur_ns), calls.match >= 0
    # In a group of two the remaining call is unmatched: it takes at least the usual transfer.
    usual = median_by(own[has_met], calls.waiting.transfer_ns[has_met], int(own.max(initial=-1)) + 1)[own]
    took = np.where(has_met, took, np.where(calls.two_ended, 0, np.minimum(usual, calls.dur_ns)))
    waited = sum_by(burst, np.minimum(took, calls.blocked_ns), len(opening))
    # No burst precedes the first one.
    follows = np.diff(own[opening], prepend=-1) == 0
    hidden = np.where(follows, np.append(0, _overlapped_compute(calls, opening, end))[:-1], 0)
    known = np.all([values[opening] >= 0 for values in before.values()], axis=0)
    sums = {
        key: _sums(np.where(known, values[opening] + (hidden if key == COMPUTE else 0), 0))
        for key, values in before.items()
    }
    is_first = np.diff(own[order], prepend=-1) != 0
    begin = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    latest = np.maximum.accumulate(np.where(calls.match[order] >= 0, np.arange(len(order)), -1))
    latest = np.append(-1, latest)[:-1]
    last_match, head = np.empty(len(own), np.int64), np.empty(len(own), np.int64)
    last_match[order] = np.where(latest >= begin, order[latest], -1)
    head[order] = order[begin]
    return Stretches(
        burst=burst,
        before=last_match[first],
        opens=calls.step[head],
        _first=burst[head],
        _gone=sums,
        _waited=_sums(waited),
        _unknown=_sums(~known),
        _calls=calls,
    )


def _sums(values: Int64 | Bool) -> Int64:
    """Returns the sum of all values before each index, followed by the total."""
    return np.append(0, np.cumsum(values))
