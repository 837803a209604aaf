"""Guaranteed gain per step without a straggler.

The gains of groups do not add up: a delay in one group is saved only if no other rank delays those that wait. Each rank has a
time by which it is earlier; a collective is as much earlier as its last rank.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.views.distributed.stragglers.arrivals import Arrivals
from tb_plugin.views.distributed.stragglers.call_sequences import NEVER, Meetings, Walk, lanes_of, raise_to

Int64 = npt.NDArray[np.int64]


def gained(arrived: Arrivals, asked: Int64, workers: int, steps: int) -> Int64:
    """Returns the guaranteed gain of each step ([asked, step]) for each worker of ``asked``, if it were as fast as the next
    one wherever it is last.

    Steps are independent: each starts without a gain. Both ends of a point-to-point call wait for each other. If the awaited
    rank is unknown (a rank lacks the call), the call is as much earlier as the latest of all workers.
    """
    met = arrived.met
    lanes = lanes_of(met, workers, steps)
    early = np.zeros((lanes.count, len(asked)), np.int64)
    if not early.size or not len(lanes.call):
        return np.zeros((len(asked), steps), np.int64)
    meetings = Meetings.made(arrived, lanes, arrived.late_ns, arrived.sure & arrived.told)
    of, at, top, known = meetings.of, meetings.at, meetings.top, meetings.known
    # Each selected worker is earlier by the guaranteed cost of its last arrivals.
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
