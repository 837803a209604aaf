"""What a job gains for sure if one worker were as fast as the next: how much earlier each call then ends, call by call.

Nothing is added up group by group: what a worker loses in one group is gained only as far as nobody else keeps those that
wait. Every rank has a time by which it is earlier; a collective is as much earlier as the last of its ranks then is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.views.distributed.stragglers.arrivals import Arrivals
from tb_plugin.views.distributed.stragglers.call_sequences import NEVER, Meetings, Walk, lanes_of, raise_to

Int64 = npt.NDArray[np.int64]


def gained(arrived: Arrivals, asked: Int64, workers: int, steps: int) -> Int64:
    """Returns for each worker of ``asked`` what each step ([asked, step]) gains at least if that worker were as fast as the
    next one wherever it is last.

    Each step stands for itself: nobody is earlier when it begins. Both ends of a call from one rank to another wait for each
    other. Where it is not known who was awaited (a rank lacks the call) that is as much earlier as all workers are by then,
    the latest of all.
    """
    met = arrived.met
    lanes = lanes_of(met, workers, steps)
    early = np.zeros((lanes.count, len(asked)), np.int64)
    if not early.size or not len(lanes.call):
        return np.zeros((len(asked), steps), np.int64)
    meetings = Meetings.made(arrived, lanes, arrived.late_ns, arrived.sure & arrived.told)
    of, at, top, known = meetings.of, meetings.at, meetings.top, meetings.known
    # Where it is last each of those asked about is earlier by what is surely lost there.
    last = arrived.row[arrived.last]
    own = np.zeros(len(of), np.int64)
    own[last[last >= 0]] = arrived.low_ns[last >= 0]
    column = np.full(workers, -1)
    column[asked] = np.arange(len(asked))
    latest = np.full((len(asked), len(top)), NEVER)
    walk = Walk(lanes, meetings)
    for begun, where, done, over in walk:
        late = np.flatnonzero((own[begun] > 0) & (column[met.worker[begun]] >= 0))
        early[where[late], column[met.worker[begun[late]]]] += own[begun[late]]
        raise_to(latest, of[begun], at[begun][:, None] - early[where])
        sooner = top[of[done]][:, None] - latest[:, of[done]].T
        unknown = ~known[of[done]]
        if unknown.any():
            sooner[unknown] = early.reshape(workers, steps, -1).min(axis=0)[over[unknown] % steps]
        early[over] = np.minimum(sooner, early[over] + met.blocked_ns[done][:, None])
    early[walk.stuck] = 0
    found: Int64 = early.reshape(workers, steps, len(asked)).min(axis=0).T
    return np.maximum(found, 0)
