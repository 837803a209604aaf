"""Replay of a job without a straggler.

For each worker, the replay computes the gain: how much earlier the worker is than in the recording. The gain is 0 at
the start of each step. A worker starts a collective earlier by its gain. If a collective waits for the previous call on
its stream, the collective starts earlier by the gain at the end of that call. A collective ends earlier by the gain of
its last worker. A removed straggler starts its late collectives together with the next slowest rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import codes, side_by_side
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals, StragglerCalls, previous_syncs

# a call that starts this soon after the previous one on its stream waited for it: launches take time
MAX_LAUNCH_GAP_NS = 10_000
# minimum share of a call without compute for which the worker counts as idle
MIN_BLOCKED_PERCENT = 98
_NEVER = np.iinfo(np.int64).min // 2
_UNLIMITED = np.iinfo(np.int64).max


class Lanes(msgspec.Struct, frozen=True, eq=False):
    """Starts and ends of calls, sorted into lanes.

    A lane is one worker in one step, and has the index ``worker * steps + step``.
    """

    count: int
    of: Int64
    """Lane of each call; -1 if the call is outside the steps."""
    call: Int64
    """Call that starts or ends, sorted by lane and time."""
    is_end: Bool
    first: Int64
    """Index in ``call`` of the first start or end of each lane."""
    end: Int64
    """Index in ``call`` after the last start or end of each lane."""


@cached_by_argument
def lanes_of(calls: StragglerCalls, workers: int, steps: int) -> Lanes:
    """Sorts calls into lanes. Calls with a step index >= ``steps`` are outside the steps."""
    of = np.where(calls.step < steps, calls.worker * steps + calls.step, -1)
    rows = np.flatnonzero(of >= 0)
    start = calls.start_ns[rows]
    # Ends come before starts at the same time. A call without duration ends after its start.
    end = start + np.maximum(calls.dur_ns[rows], 1)
    (time,) = side_by_side((np.concatenate((of[rows], of[rows])), np.concatenate((end, start))))
    order = np.argsort(time, kind="stable")
    size = np.bincount(of[rows], minlength=workers * steps)
    stop = np.cumsum(size * 2)
    return Lanes(workers * steps, of, np.concatenate((rows, rows))[order], order < len(rows), stop - size * 2, stop)


class WaitTargets(msgspec.Struct, frozen=True, eq=False):
    """Collectives and messages that calls wait for.

    Collectives come first, then messages, then one dummy entry for calls whose order of arrivals is unknown.
    """

    of: Int64
    at: Int64
    """Start of each call relative to the other calls of its collective or message."""
    top: Int64
    """Last start of a call in each collective or message."""

    @classmethod
    def of_job(cls, arrived: Arrivals, lanes: Lanes) -> WaitTargets:
        calls, collectives = arrived.calls, len(arrived.last)
        ends = np.flatnonzero(calls.two_ended & (calls.match >= 0))
        _, message, count = np.unique(calls.match[ends], return_inverse=True, return_counts=True)
        ends = ends[count[message] == 2]
        message = np.unique(calls.match[ends], return_inverse=True)[1]
        messages = int(message.max(initial=-1)) + 1
        of, at = np.full(len(lanes.of), collectives + messages), np.zeros(len(lanes.of), np.int64)
        of[arrived.row], at[arrived.row] = arrived.collective, arrived.late_ns
        of[ends], at[ends] = collectives + message, -calls.dur_ns[ends]
        of[np.isin(of, of[lanes.of < 0])] = collectives + messages
        top = np.full(collectives + messages + 1, _NEVER)
        np.maximum.at(top, of, at)
        top[-1] = 0
        return cls(of, at, top)


class Walk:
    """Event-driven simulation in which a collective ends only after all ranks have started the collective."""

    def __init__(self, lanes: Lanes, targets: WaitTargets) -> None:
        self._lanes = lanes
        self._of = targets.of
        self._left = np.bincount(targets.of, minlength=len(targets.top))
        self._left[-1] = 0
        self.stuck = np.empty(0, np.int64)

    def __iter__(self) -> Iterator[tuple[Int64, Int64, Int64, Int64]]:
        """Yields four arrays: calls that start, the lanes of these calls, calls that end next, and the lanes of
        these calls.
        """
        call, is_end, end = self._lanes.call, self._lanes.is_end, self._lanes.end
        place = self._lanes.first.copy()
        active = np.flatnonzero(place < end)
        while len(active):
            which, over_now = call[place[active]], is_end[place[active]]
            begins = np.flatnonzero(~over_now)
            np.subtract.at(self._left, self._of[which[begins]], 1)
            ends = np.flatnonzero(over_now)
            ends = ends[self._left[self._of[which[ends]]] <= 0]
            if not len(begins) and not len(ends):
                self.stuck = active
                return
            yield which[begins], active[begins], which[ends], active[ends]
            moved = ~over_now
            moved[ends] = True
            place[active[moved]] += 1
            active = active[place[active] < end[active]]


def simulated_saving(arrived: Arrivals, candidates: Sequence[Sequence[int]], workers: int, steps: int) -> Int64:
    """Returns the estimated saving of each set of workers, in ns, with shape (sets, steps).

    All workers of a set become as fast as the next slowest rank. No worker may be in two sets.
    """
    lanes = lanes_of(arrived.calls, workers, steps)
    if not len(candidates) or not len(lanes.call):
        return np.zeros((len(candidates), steps), np.int64)
    column = np.full(workers, -1)
    for place, members in enumerate(candidates):
        column[list(members)] = place
    early = _gains(arrived, lanes, column, len(candidates)).reshape(workers, steps, -1)
    # Work of removed workers after their last call belongs to the next step.
    early[column >= 0, :, column[column >= 0]] = _UNLIMITED
    early[(lanes.first == lanes.end).reshape(workers, steps)] = _UNLIMITED
    found: Int64 = early.min(axis=0).T
    return np.where(found == _UNLIMITED, 0, np.maximum(found, 0))


def _gains(arrived: Arrivals, lanes: Lanes, column: Int64, columns: int) -> Int64:
    """Returns the gain of each worker at the end of each step, in ns, with shape (lanes, columns)."""
    calls, targets = arrived.calls, WaitTargets.of_job(arrived, lanes)
    of, at, top = targets.of, targets.at, targets.top
    behind, idle, chain = _waits_for_previous(calls, lanes.of)
    # Per last rank: distance to the next slowest rank (without and with its idle time), and what that rank waits for.
    delayed = np.flatnonzero(arrived.raw_ns > arrived.inherited_ns)
    row, other = arrived.row[arrived.last[delayed]], arrived.before[delayed]
    distance, own, awaited = np.zeros(len(of), np.int64), np.zeros(len(of), np.int64), np.full(len(of), len(top) - 1)
    distance[row] = (arrived.raw_ns - arrived.inherited_ns)[delayed]
    own[row] = distance[row] + np.where(idle[row] < 0, np.maximum(idle[other], 0), 0)
    awaited[row] = np.where(behind[other] >= 0, of[behind[other]], len(top) - 1)
    is_undelayed = np.zeros(len(of), np.bool_)
    is_undelayed[row] = arrived.inherited_ns[delayed] == 0
    mine, sync = column[calls.worker], previous_syncs(calls)
    sync = np.where((sync >= 0) & (lanes.of[sync] == lanes.of), sync, -1)
    base = sync.copy()
    own_ns, first = _at_messages(calls, targets, lanes, sync, row, own[row])
    own[first], base[first] = own_ns, sync[row]
    queued_row, queued_ns = _late_in_queue(arrived, idle)
    own[queued_row], base[queued_row] = queued_ns, sync[chain[queued_row]]
    # gain of the removed worker at the end of each of its calls; the last entry is for calls without earlier ones
    after = np.zeros(len(of) + 1, np.int64)
    early = np.zeros((lanes.count, columns), np.int64)
    latest, sooner = np.full((columns, len(top)), _NEVER), np.zeros((len(top), columns), np.int64)
    walk = Walk(lanes, targets)
    for begun, where, done, over in walk:
        late = np.flatnonzero((mine[begun] >= 0) & (own[begun] > 0))
        its, who = begun[late], mine[begun[late]]
        early[where[late], who] = np.maximum(early[where[late], who], after[base[its]] + own[its])
        shift = np.where((behind[begun] >= 0)[:, None], sooner[of[behind[begun]]], early[where])
        queued = np.maximum(early[where[late], who], distance[its] + sooner[awaited[its], who])
        shift[late, who] = np.where(is_undelayed[its], -_NEVER // 2, queued)
        _raise_to(latest, of[begun], at[begun][:, None] - shift)
        last_other = latest[:, of[done]].T
        gain = np.maximum(top[of[done]][:, None] - last_other, 0)
        # Without a known waiting rank, the call imposes no limit.
        gain = np.where((last_other < _NEVER // 4) | (of[done] == len(top) - 1)[:, None], early[over], gain)
        sooner[of[done]] = gain
        sooner[-1] = 0
        blocks = calls.blocked_ns[done] > 0
        blocked = calls.blocked_ns[done[blocks]][:, None]
        early[over[blocks]] = np.minimum(gain[blocks], early[over[blocks]] + blocked)
        removed = mine[done] >= 0
        after[done[removed]] = early[over[removed], mine[done[removed]]]
    early[walk.stuck] = 0
    return early


def _late_in_queue(arrived: Arrivals, idle: Int64) -> tuple[Int64, Int64]:
    """Returns the latest call to be ready, and how late it is, for collectives that all wait for a previous call.

    All ranks start such a collective together, but the ranks that are ready earlier are idle for longer before.
    """
    order = np.lexsort((idle[arrived.row], arrived.collective))
    first = np.flatnonzero(np.diff(arrived.collective, prepend=-1))
    row, following = arrived.row[order[first]], arrived.row[order[np.minimum(first + 1, len(order) - 1)]]
    late = idle[following] - idle[row]
    is_late = (idle[row] >= 0) & (late > MAX_LAUNCH_GAP_NS)
    return row[is_late], late[is_late]


def _at_messages(
    calls: StragglerCalls, targets: WaitTargets, lanes: Lanes, sync: Int64, late: Int64, own: Int64
) -> tuple[Int64, Int64]:
    """Returns, for each late call, how late its worker is at its first message since ``sync``, and that message.

    Without such a message, the late call itself is returned.
    """
    lane, rows = lanes.of, np.arange(len(lanes.of))
    is_known = calls.two_ended & (targets.of < len(targets.top) - 1)
    following = np.minimum.accumulate(np.where(is_known, rows, len(rows))[::-1])[::-1]
    message = following[np.where(sync[late] >= 0, sync[late] + 1, lanes.call[lanes.first[lane[late]]])]
    total = np.bincount(targets.of, weights=targets.at, minlength=len(targets.top)).astype(np.int64)
    has_message = (message < late) & (lane[np.minimum(message, late)] == lane[late])
    message = np.where(has_message, message, late)
    later = 2 * targets.at[message] - total[targets.of[message]]
    return np.where(has_message, np.clip(later, 0, own), own), message


def _raise_to(highest: Int64, rows: Int64, values: Int64) -> None:
    """Sets ``highest`` at ``rows`` to the maximum of its values and ``values``, in place.

    ``highest`` has shape (columns, all rows). ``values`` has shape (len(rows), columns).
    """
    for column, mine in enumerate(highest):
        np.maximum.at(mine, rows, values[:, column])  # all columns at once would be ten times slower


def _waits_for_previous(calls: StragglerCalls, lane: Int64) -> tuple[Int64, Int64, Int64]:
    """Returns the index of the previous call on the same stream for calls that start as soon as that call ends,
    else -1.

    The second result is how long the worker was idle before the call, ns (-1 for all other calls). The third result is
    the call in which the worker became idle.
    """
    key = codes(calls.worker, calls.stream)
    order = np.lexsort((calls.start_ns, key))
    start, end, blocked = calls.start_ns[order], (calls.start_ns + calls.dur_ns)[order], calls.blocked_ns[order]
    wholly = 100 * blocked >= MIN_BLOCKED_PERCENT * calls.dur_ns[order]
    follows = np.zeros(len(order), np.bool_)
    follows[1:] = (
        (np.diff(key[order]) == 0) & (np.diff(lane[order]) == 0) & (np.abs(start[1:] - end[:-1]) <= MAX_LAUNCH_GAP_NS)
    )
    # The worker was idle while the previous call blocked it, and before that during calls that blocked it completely.
    idle = np.append(0, blocked[:-1]) * follows
    total = np.cumsum(idle)
    fresh = ~follows | ~np.append(False, wholly[:-1])
    since = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    # An idle worker is ready for the last call that it waits for, and was ready earlier for those before.
    is_ready = (idle > 0) & ~(np.append(follows[1:], False) & wholly)
    behind, known, chain = np.full(len(order), -1), np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    behind[order] = np.where(follows & ~is_ready, np.append(-1, order[:-1]), -1)
    known[order] = np.where(follows, total - total[since] + idle[since], -1)
    chain[order] = order[np.maximum(since - 1, 0)]
    return behind, known, chain
