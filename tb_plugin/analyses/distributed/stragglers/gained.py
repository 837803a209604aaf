"""What a job gains for sure if one worker were as fast as the next: how much earlier each call then ends, call by call.

Nothing is added up group by group: what a worker loses in one group is gained only as far as nobody else keeps those that
wait. Every rank has a time by which it is earlier; a collective is as much earlier as the last of its ranks then is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.distributed.stragglers.arrivals import Arrivals
from tb_plugin.analyses.distributed.stragglers.lanes import NEVER, events, pairs_of

Int64 = npt.NDArray[np.int64]


def gained(arrived: Arrivals, asked: Int64, workers: int, steps: int) -> Int64:
    """Returns for each worker of ``asked`` what each step ([asked, step]) gains at least if that worker were as fast as the
    next one wherever it is last.

    Each step stands for itself: nobody is earlier when it begins. Both ends of a call from one rank to another wait for each
    other. Where it is not known who was awaited (a rank lacks the call) that is as much earlier as all workers are by then,
    the latest of all.
    """
    met = arrived.met
    early = np.zeros((workers * steps, len(asked)), np.int64)
    rows = np.flatnonzero(met.step < steps)
    if not early.size or not len(rows):
        return np.zeros((len(asked), steps), np.int64)
    lane = np.full(len(met.worker), -1)
    lane[rows] = met.worker[rows] * steps + met.step[rows]
    ends, pair = pairs_of(met)
    collectives, pairs = len(arrived.last), int(pair.max(initial=-1)) + 1
    count = collectives + pairs
    of, at = np.full(len(lane), count), np.zeros(len(lane), np.int64)  # One more that stands for all that nobody knows.
    there = np.flatnonzero(arrived.row >= 0)
    of[arrived.row[there]], at[arrived.row[there]] = arrived.collective[there], arrived.late_ns[there]
    of[ends], at[ends] = collectives + pair, -met.dur_ns[ends]
    latest_of_pair = np.full(pairs, NEVER)
    np.maximum.at(latest_of_pair, pair, at[ends])
    top = np.concatenate((arrived.late_ns[arrived.last], latest_of_pair, [0]))
    whole = np.concatenate((arrived.sure & arrived.told, np.ones(pairs, np.bool_), [False]))
    whole[of[lane < 0]] = False
    missing = np.bincount(of[of < count], minlength=count + 1)
    missing[~whole] = 0
    # Where it is last each of those asked about is earlier by what is surely lost there.
    last = arrived.row[arrived.last]
    own = np.zeros(len(lane), np.int64)
    own[last[last >= 0]] = arrived.low_ns[last >= 0]
    latest = np.full((count + 1, len(asked)), NEVER)
    call, is_end, place, end = events(lane, met.start_ns, met.dur_ns, len(early))
    active = np.flatnonzero(place < end)
    while len(active):
        event = place[active]
        which, over_now = call[event], is_end[event]
        begun, where = which[~over_now], active[~over_now]
        early[where] += np.where(met.worker[begun][:, None] == asked, own[begun][:, None], 0)
        np.maximum.at(latest, of[begun], at[begun][:, None] - early[where])
        np.subtract.at(missing, of[begun], 1)
        over = np.flatnonzero(over_now)
        over = over[missing[of[which[over]]] <= 0]
        done, where = which[over], active[over]
        sure = whole[of[done]]
        sooner = top[of[done]][:, None] - latest[of[done]]
        if not sure.all():
            sooner[~sure] = early.reshape(workers, steps, -1).min(axis=0)[where[~sure] % steps]
        early[where] = np.minimum(sooner, early[where] + met.blocked_ns[done][:, None])
        moved = ~over_now
        moved[over] = True
        if not moved.any():  # Ends that none of their begins precede: nobody knows what waits for what.
            early[active] = 0
            break
        place[active[moved]] += 1
        active = active[place[active] < end[active]]
    found: Int64 = early.reshape(workers, steps, len(asked)).min(axis=0).T
    return np.maximum(found, 0)
