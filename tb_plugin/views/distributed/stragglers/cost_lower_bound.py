"""Lower bound on the time saved per step without a straggler.

Savings of different groups cannot be added, because another rank may delay the same waiting ranks. Instead, the
bound simulates how much earlier each rank arrives. A collective starts earlier by the same amount as its last rank.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.views.distributed.stragglers.arrivals import Arrivals
from tb_plugin.views.distributed.stragglers.call_sequences import NEVER, Meetings, Walk, lanes_of, raise_to

Int64 = npt.NDArray[np.int64]


def saving_lower_bound(arrived: Arrivals, candidates: Int64, workers: int, steps: int) -> Int64:
    """Returns a lower bound on the time saved by each candidate, in ns, with shape (candidates, steps).

    The candidate becomes as fast as the next slowest rank. Each step is simulated separately. Both ends of a
    point-to-point call wait for each other. If the last rank is unknown, the call starts earlier by the smallest
    gain of all workers.
    """
    calls = arrived.calls
    lanes = lanes_of(calls, workers, steps)
    early = np.zeros((lanes.count, len(candidates)), np.int64)
    if not early.size or not len(lanes.call):
        return np.zeros((len(candidates), steps), np.int64)
    meetings = Meetings.from_arrivals(arrived, lanes, arrived.late_ns, arrived.sure & arrived.is_reliable)
    collective, start, last_start, known = meetings.of, meetings.at, meetings.top, meetings.is_complete
    # Each candidate arrives earlier by the lower bound of its cost.
    last = arrived.row[arrived.last]
    own = np.zeros(len(collective), np.int64)
    own[last[last >= 0]] = arrived.low_ns[last >= 0]
    column = np.full(workers, -1)
    column[candidates] = np.arange(len(candidates))
    latest = np.full((len(candidates), len(last_start)), NEVER)
    simulation = Walk(lanes, meetings)
    for begun, where, done, over in simulation:
        late = np.flatnonzero((own[begun] > 0) & (column[calls.worker[begun]] >= 0))
        early[where[late], column[calls.worker[begun[late]]]] += own[begun[late]]
        raise_to(latest, collective[begun], start[begun][:, None] - early[where])
        gain = last_start[collective[done]][:, None] - latest[:, collective[done]].T
        unknown = ~known[collective[done]]
        if unknown.any():
            gain[unknown] = early.reshape(workers, steps, -1).min(axis=0)[over[unknown] % steps]
        early[over] = np.minimum(gain, early[over] + calls.blocked_ns[done][:, None])
    early[simulation.stuck] = 0
    found: Int64 = early.reshape(workers, steps, len(candidates)).min(axis=0).T
    return np.maximum(found, 0)
