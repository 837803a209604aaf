"""What workers did from one collective of their group to another, of which some may lack those in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.distributed.matching.codes import codes, on_one_axis
from tb_plugin.analyses.distributed.stragglers.met import Met
from tb_plugin.analyses.distributed.waiting import ESTIMATED, TIMINGS
from tb_plugin.analyses.grouping import sum_by
from tb_plugin.trace.memo import remembered

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

COMPUTE, IDLE = "compute", "idle"


def own_work(met: Met, before: Mapping[str, Int64], first: Int64) -> dict[str, Int64]:
    """Returns the components with what each call hides, which is computation of the same stretch between two that block.

    While others wait for a straggler in a call that they hide they go on with what it does before the next one. Calls of a
    group that are under way at once have one time before them: what was done before the ``first`` (``bursts``) is before all
    of them.
    """
    if COMPUTE not in before:
        return dict(before)
    found = {key: np.where(values >= 0, values[first], values) for key, values in before.items()}
    compute = found[COMPUTE]
    return {**found, COMPUTE: np.where(compute >= 0, compute + _hidden(met, met.start_ns + met.dur_ns), compute)}


@remembered
def bursts(met: Met) -> Int64:
    """Returns for each call the first one of those of its worker and group that are under way at once with it."""
    own = codes(met.worker, met.group)
    order = np.lexsort((met.start_ns, own))
    opens = np.diff(own[order], prepend=-1) != 0
    start, end = on_one_axis(own[order], met.start_ns[order], (met.start_ns + met.dur_ns)[order])
    opens[1:] |= start[1:] >= np.maximum.accumulate(end)[:-1]
    first = np.empty(len(order), np.int64)
    first[order] = order[np.maximum.accumulate(np.where(opens, np.arange(len(order)), 0))]
    return first


def _hidden(met: Met, until_ns: Int64) -> Int64:
    """How long each call's worker computes from its begin on, at least: while a call blocks it, it does not."""
    order = np.lexsort((met.start_ns, met.worker))
    start, end = on_one_axis(met.worker[order], met.start_ns[order], until_ns[order])
    total = np.append(0, np.cumsum(met.blocked_ns[order]))
    later = np.searchsorted(start, end, side="left")
    mine = np.arange(len(order))
    hidden = np.empty(len(order), np.int64)
    whole = (until_ns - met.start_ns)[order]
    hidden[order] = np.maximum(whole - (total[np.maximum(later, mine + 1)] - total[mine]), 0)
    return hidden


@dataclass(frozen=True, eq=False)
class Stretches:
    """What stands before each call of Met, and before those of its worker and group before it."""

    burst: Int64
    """Which calls are under way at once: those of a worker and group have numbers one after the other, in order of time."""
    before: Int64
    """The last call before the burst that has a match; -1 for none."""
    opens: Int64
    """The step of the first call of the worker and group."""
    _first: Int64
    """The first burst of the worker and group."""
    _work: Mapping[str, Int64]
    _gone: Mapping[str, Int64]
    """What was done before and in bursts, sums over all with lower numbers."""
    _unknown: Int64
    """How many of them it is not known of."""
    _met: Met

    def same_call(self, leader: Int64, of: Int64) -> Int64:
        """Returns the call of each one's worker, before its burst, with the match of the leader's call before; else -1."""
        match, worker, before = self._met.match, self._met.worker, self.before[leader]
        asked = np.zeros(int(match.max(initial=-1)) + 2, np.bool_)  # the last one is for calls without a match
        asked[match[before[before >= 0]]] = True
        rows = np.flatnonzero(asked[match])
        key = codes(np.concatenate((match[rows], match[before])), np.concatenate((worker[rows], worker[of])))
        at = np.full(int(key.max(initial=-1)) + 1, -1)
        at[key[: len(rows)]] = rows
        found = np.where(before >= 0, at[key[len(rows) :]], -1)
        return np.where(self.burst[found] < self.burst[of], found, -1)

    def since(self, call: Int64, before: Int64) -> Int64:
        """Returns the burst after a call ``before``; where that is -1 the first one of the call's worker and group."""
        return np.where(before >= 0, self.burst[before] + 1, self._first[call])

    def is_known(self, call: Int64, since: Int64) -> Bool:
        """Returns whether all that stands before a call is known, since a burst."""
        known: Bool = self._unknown[self.burst[call]] == self._unknown[since]
        return known

    def done(self, key: str, call: Int64, since: Int64) -> Int64:
        """Returns how much of a component stands before a call, and is hidden by it, since a burst."""
        gone = self._gone[key]
        done: Int64 = self._work[key][call] + gone[self.burst[call]] - gone[since]
        return done


def stretches(met: Met, work: Mapping[str, Int64], first: Int64) -> Stretches:
    """Returns the stretches before calls. ``work``: by component, of ``own_work``; ``first``: of ``bursts``."""
    own = codes(met.worker, met.group)
    end = met.start_ns + met.dur_ns
    # Rows of a worker stand in order of time.
    order = np.argsort(own, kind="stable")
    opening = order[first[order] == order]
    number = np.empty(len(own), np.int64)
    number[opening] = np.arange(len(opening))
    burst = number[first]
    last_end = np.full(len(opening), np.iinfo(np.int64).min)
    np.maximum.at(last_end, burst, end)
    known = np.all([values[opening] >= 0 for values in work.values()], axis=0)
    # In a burst the worker computes what it hides. Who lacks its calls seems idle as long as they take: the others wait for
    # it where it came last, else it waits as they do.
    more = np.zeros(len(own), np.int64)
    if (last_end > end[opening]).any():
        more = _hidden(met, last_end[burst]) - _hidden(met, end)
    came_last = met.waiting.timing == TIMINGS.index(ESTIMATED)
    waited = np.minimum(np.where(came_last, met.waiting.transfer_ns, met.dur_ns), met.blocked_ns)
    within = {
        COMPUTE: more[opening],
        IDLE: sum_by(burst, np.where(met.match >= 0, waited, 0), len(opening)),
    }
    gone = {
        key: np.append(0, np.cumsum(np.where(known, values[opening] + within.get(key, 0), 0)))
        for key, values in work.items()
    }
    is_first = np.diff(own[order], prepend=-1) != 0
    begin = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    latest = np.maximum.accumulate(np.where(met.match[order] >= 0, np.arange(len(order)), -1))
    latest = np.append(-1, latest)[:-1]
    before, head = np.empty(len(own), np.int64), np.empty(len(own), np.int64)
    before[order] = np.where(latest >= begin, order[latest], -1)
    head[order] = order[begin]
    return Stretches(
        burst=burst,
        before=before[first],
        opens=met.step[head],
        _first=burst[head],
        _work=work,
        _gone=gone,
        _unknown=np.append(0, np.cumsum(~known)),
        _met=met,
    )
