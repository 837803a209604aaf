"""Simulated saving of a job without a straggler.

The simulation tracks how much earlier each worker is than recorded, from 0 at the start of each step. A worker
starts a collective earlier by that time. A collective that waits for the previous call on its stream starts earlier
by as much as that call ends earlier. A collective ends earlier by as much as its last worker starts earlier. A
simulated straggler starts its late collectives together with the next slowest rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import codes
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals
from tb_plugin.views.distributed.stragglers.call_sequences import NEVER, Lanes, Meetings, Walk, lanes_of, raise_to
from tb_plugin.views.distributed.stragglers.calls import StragglerCalls

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# a call that starts this soon after the previous one on its stream waited for it: launches take time
MAX_LAUNCH_GAP_NS = 10_000
# share of a call without concurrent compute; from it on, the worker is idle during the call
MIN_BLOCKED_PERCENT = 98
_UNLIMITED = np.iinfo(np.int64).max


def simulated_saving(arrived: Arrivals, candidates: Sequence[Sequence[int]], workers: int, steps: int) -> Int64:
    """Returns the estimated saving of each set of workers, in ns, with shape (sets, steps).

    All workers of a set become as fast as the next slowest rank. No worker may be in two sets. It is not always
    known how early a call could start. If its worker was not idle before the call, the simulation sets no limit.
    Ranks without a trace delay no other rank, nor do workers in steps in which they lack calls.
    """
    calls = arrived.calls
    lanes = lanes_of(calls, workers, steps)
    if not len(candidates) or not len(lanes.call):
        return np.zeros((len(candidates), steps), np.int64)
    column = np.full(workers, -1)
    for place, members in enumerate(candidates):
        column[list(members)] = place
    lacks = _lanes_with_missing_calls(calls, lanes)
    early = _simulated_gain(arrived, lanes, lacks, column, len(candidates)).reshape(workers, steps, -1)
    # Work of simulated workers after their last call belongs to the next step.
    early[column >= 0, :, column[column >= 0]] = _UNLIMITED
    early[lacks.reshape(workers, steps)] = _UNLIMITED
    found: Int64 = early.min(axis=0).T
    return np.where(found == _UNLIMITED, 0, np.maximum(found, 0))


def _simulated_gain(arrived: Arrivals, lanes: Lanes, lacks: Bool, column: Int64, columns: int) -> Int64:
    """Saving of each worker at the end of each step (lane), in ns, with shape (lanes, columns)."""
    straggler_calls, calls = arrived.calls, len(lanes.of)
    early = np.zeros((lanes.count, columns), np.int64)
    # Ranks that arrive slightly after the reference do so by chance: they get its lateness.
    late_ns = np.minimum(arrived.late_ns, (arrived.late_ns[arrived.last] - arrived.raw_ns)[arrived.collective])
    late_ns[arrived.last] = arrived.late_ns[arrived.last]
    meetings = Meetings.from_arrivals(arrived, lanes, late_ns, arrived.is_reliable)
    of, at, top, known = meetings.of, meetings.at, meetings.top, meetings.is_complete
    behind, idle = _waits_for_previous(straggler_calls, lanes.of)
    # Per last rank: distance to the reference rank (without and with its idle time), and the call that the reference
    # waits for.
    last = np.flatnonzero((arrived.row[arrived.last] >= 0) & (arrived.raw_ns > arrived.inherited_ns))
    row, other = arrived.row[arrived.last[last]], _reference_rows(arrived, lanes, lacks)[last]
    distance, own, awaited = np.zeros(calls, np.int64), np.zeros(calls, np.int64), np.full(calls, len(top) - 1)
    distance[row] = (arrived.raw_ns - arrived.inherited_ns)[last]
    own[row] = distance[row] + np.where(idle[row] < 0, np.maximum(idle[other], 0), 0)
    awaited[row] = np.where(behind[other] >= 0, of[behind[other]], len(top) - 1)
    # whether the last rank was not delayed before
    is_undelayed = np.zeros(calls, np.bool_)
    is_undelayed[row] = arrived.inherited_ns[last] == 0
    mine = column[straggler_calls.worker]
    local, within = _groups_within(straggler_calls, mine)
    # gain of each simulated lane when each of its groups last synchronized
    base = np.zeros((lanes.count, len(within[0])), np.int64)
    latest, sooner = np.full((columns, len(top)), NEVER), np.zeros((len(top), columns), np.int64)
    simulation = Walk(lanes, meetings)
    for begun, where, done, over in simulation:
        late = np.flatnonzero((mine[begun] >= 0) & (own[begun] > 0))
        its, who = begun[late], mine[begun[late]]
        early[where[late], who] = np.maximum(early[where[late], who], base[where[late], local[its]] + own[its])
        shift = np.where((behind[begun] >= 0)[:, None], sooner[of[behind[begun]]], early[where])
        shift[late, who] = np.where(
            is_undelayed[its],
            -NEVER // 2,
            np.maximum(early[where[late], who], distance[its] + sooner[awaited[its], who]),
        )
        shift[lacks[where]] = -NEVER // 2
        raise_to(latest, of[begun], at[begun][:, None] - shift)
        before = latest[:, of[done]].T
        gain = np.maximum(top[of[done]][:, None] - before, 0)
        # Without a known waiting rank, the call imposes no limit.
        gain = np.where((before < NEVER // 4) | ~known[of[done]][:, None], early[over], gain)
        sooner[of[done]] = gain
        sooner[-1] = 0
        blocks = straggler_calls.blocked_ns[done] > 0
        blocked = straggler_calls.blocked_ns[done[blocks]][:, None]
        early[over[blocks]] = np.minimum(gain[blocks], early[over[blocks]] + blocked)
        anew = np.flatnonzero((mine[done] >= 0) & blocks & ~straggler_calls.two_ended[done])
        its, lanes_anew = done[anew], over[anew]
        now = early[lanes_anew, mine[its]][:, None]
        base[lanes_anew] = np.where(within[straggler_calls.worker[its], local[its]], now, base[lanes_anew])
    early[simulation.stuck] = 0
    return early


def _reference_rows(arrived: Arrivals, lanes: Lanes, lacks: Bool) -> Int64:
    """Row of the reference call for the last call of each collective.

    If possible, its worker has no missing calls.
    """
    row = arrived.row
    whole = (row >= 0) & ~lacks[lanes.of[row]]
    whole[arrived.last] = False
    latest = np.full(len(arrived.last), -1)
    np.maximum.at(latest, arrived.collective[whole], np.flatnonzero(whole))
    lost = lacks[lanes.of[arrived.before]] & (latest >= 0)
    return np.where(lost, row[latest], arrived.before)


def _waits_for_previous(calls: StragglerCalls, lane: Int64) -> tuple[Int64, Int64]:
    """For each call that starts as soon as the previous call on its stream ends, that previous call; else -1.

    The second result is how long the worker was idle by then, ns. It is -1 if the call does not follow directly.
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
    behind, known = np.full(len(order), -1), np.empty(len(order), np.int64)
    behind[order] = np.where(follows & ~is_ready, np.append(-1, order[:-1]), -1)
    known[order] = np.where(follows, total - total[since] + idle[since], -1)
    return behind, known


def _groups_within(calls: StragglerCalls, column: Int64) -> tuple[Int64, Bool]:
    """Index of each call's group among the groups of its worker, for simulated workers.

    The second result has shape [worker, group, group]. It marks pairs in which the second group is a subset of the
    first.
    """
    pairs = np.unique(codes(calls.group, calls.worker), return_index=True)[1]
    pairs = pairs[~calls.two_ended[pairs]]
    members: dict[int, set[int]] = {}
    for group, worker in zip(calls.group[pairs].tolist(), calls.worker[pairs].tolist(), strict=True):
        members.setdefault(group, set()).add(worker)
    simulated = np.unique(calls.worker[column >= 0]).tolist()
    groups = {worker: [group for group, its in members.items() if worker in its] for worker in simulated}
    most = max(map(len, groups.values()), default=0) + 1
    local = np.full(len(calls.worker), most - 1)
    within = np.zeros((int(calls.worker.max(initial=-1)) + 1, most, most), np.bool_)
    for worker, its in groups.items():
        for place, group in enumerate(its):
            local[(calls.worker == worker) & (calls.group == group) & ~calls.two_ended] = place
            within[worker, place, : len(its)] = [members[other] <= members[group] for other in its]
    return local, within


def in_which_calls_were_lost(calls: StragglerCalls, workers: int, steps: int) -> Bool:
    """Marks the steps in which a worker has fewer calls of a group than another worker.

    Workers that have no calls in a step are ignored.
    """
    lanes = lanes_of(calls, workers, steps)
    lacks = _lanes_with_missing_calls(calls, lanes) & (lanes.first < lanes.end)
    found: Bool = np.zeros(steps, np.bool_)
    found[np.flatnonzero(lacks) % steps] = True  # a lane's number is worker * steps + step
    return found


def _lanes_with_missing_calls(calls: StragglerCalls, lanes: Lanes) -> Bool:
    """Marks lanes without calls, and lanes with fewer calls of a group than another worker has in the same step."""
    lane = lanes.of
    rows = np.flatnonzero((lane >= 0) & ~calls.two_ended)
    meeting = codes(calls.group[rows], calls.step[rows])
    _, first, count = np.unique(codes(meeting, lane[rows]), return_index=True, return_counts=True)
    most = np.zeros(int(meeting.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, meeting[first], count)
    found: Bool = lanes.first == lanes.end
    found[lane[rows][first[count < most[meeting[first]]]]] = True
    return found
