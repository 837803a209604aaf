"""Causes of lateness: extra activities before collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import codes, median_by, side_by_side, sum_by
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals, StragglerCalls
from tb_plugin.views.distributed.stragglers.detection import Stragglers

COMPUTE, COMMUNICATION = "compute", "communication"
# activities before a collective, from the columns before_*_ns
COMPONENTS = (COMPUTE, COMMUNICATION, "copy", "input", "host", "idle")


class Excess(msgspec.Struct, frozen=True, eq=False):
    """Extra time that a straggler spends before the collectives at which other ranks wait for the straggler."""

    ns: Mapping[str, int]
    """Extra time of each component, summed over the collectives.

    Negative if the straggler spends less time than others.
    """

    @property
    def main(self) -> str:
        """Returns the component with the largest extra time, or "" if no component has extra time."""
        most = max(self.ns, key=lambda key: self.ns[key], default="")
        return most if most and self.ns[most] > 0 else ""

    def share(self, component: str) -> float:
        """Returns the share of a component in the sum of all positive extra times."""
        total = sum(max(value, 0) for value in self.ns.values())
        return max(self.ns.get(component, 0), 0) / total if total else 0.0


def extra_times(arrived: Arrivals, found: Stragglers, activity_ns: Mapping[str, Int64]) -> dict[int, Excess]:
    """Returns the extra time of each straggler, keyed by worker.

    Only late steps of a straggler are used, and only collectives of its main group at which the straggler arrives
    last. Each component is compared with the median of the other ranks before the same collective. ``activity_ns`` has the
    time of each component before each call (-1 = unknown). Only the costliest of several concurrent calls counts,
    because the time before these calls is the same.
    """
    calls, workers, steps = arrived.calls, found.significant.tolist(), found.slow.shape[1]
    if not workers or any(key not in activity_ns for key in COMPONENTS):
        return {}
    main, burst = np.full(len(found.lost_ns), -1), first_of_burst(calls)
    main[workers] = [found.group[found.main_group(one)] for one in workers]
    late, culprit = arrived.row[arrived.last], arrived.culprit
    chosen = np.flatnonzero((arrived.raw_ns > 0) & (arrived.step < steps) & (main[culprit] == arrived.group))
    chosen = chosen[found.slow[culprit[chosen], arrived.step[chosen]]]
    chosen = chosen[np.lexsort((-arrived.cost_ns[chosen], burst[late[chosen]]))]
    chosen = np.sort(chosen[np.diff(burst[late[chosen]], prepend=-1) != 0])
    number = np.full(len(arrived.last), -1)
    number[chosen] = np.arange(len(chosen))
    is_last = np.zeros(len(arrived.row), np.bool_)
    is_last[arrived.last] = True
    activities = _activities(calls, activity_ns, burst)
    known = np.all([values[arrived.row] >= 0 for values in activities.values()], axis=0)
    others = np.flatnonzero(known & ~is_last & (number[arrived.collective] >= 0))
    comparable = known[arrived.last[chosen]] & (
        np.bincount(number[arrived.collective[others]], minlength=len(chosen)) > 0
    )
    who, more = culprit[chosen[comparable]], {}
    for key, values in activities.items():
        usual = median_by(number[arrived.collective[others]], values[arrived.row[others]], len(chosen))
        more[key] = sum_by(who, (values[late[chosen]] - usual)[comparable], len(main))
    count = np.bincount(who, minlength=len(main))
    return {one: Excess({key: int(more[key][one]) for key in COMPONENTS}) for one in workers if count[one]}


@cached_by_argument
def first_of_burst(calls: StragglerCalls) -> Int64:
    """Returns, for each call, the first call of its burst.

    A burst is a set of concurrent calls of one worker and group.
    """
    own = codes(calls.worker, calls.group)
    order = np.argsort(own, kind="stable")
    opens = np.diff(own[order], prepend=-1) != 0
    start, end = side_by_side((own[order], calls.start_ns[order]), (own[order], (calls.start_ns + calls.dur_ns)[order]))
    opens[1:] |= start[1:] >= np.maximum.accumulate(end)[:-1]
    first = np.empty(len(order), np.int64)
    first[order] = order[np.maximum.accumulate(np.where(opens, np.arange(len(order)), 0))]
    return first


def _activities(calls: StragglerCalls, activity_ns: Mapping[str, Int64], burst: Int64) -> dict[str, Int64]:
    """Returns the time of each component before the burst of each call (-1 = unknown).

    A rank may compute while its overlapped collective waits for the straggler. This compute time counts for the time
    before the next burst.
    """
    own = codes(calls.worker, calls.group)
    order = np.argsort(own, kind="stable")
    opening = order[burst[order] == order]
    number = np.empty(len(own), np.int64)
    number[opening] = np.arange(len(opening))
    end = np.full(len(opening), np.iinfo(np.int64).min)
    np.maximum.at(end, number[burst], calls.start_ns + calls.dur_ns)
    # The worker computes during a burst when no call blocks it.
    start, until = side_by_side((calls.worker, calls.start_ns), (calls.worker[opening], end))
    total = np.append(0, np.cumsum(calls.blocked_ns))
    later = np.maximum(np.searchsorted(start, until), opening + 1)
    overlapped = np.maximum(end - calls.start_ns[opening] - (total[later] - total[opening]), 0)
    follows = np.diff(own[opening], prepend=-1) == 0
    overlapped = np.where(follows, np.append(0, overlapped)[:-1], 0)
    found = {key: values[burst] for key, values in activity_ns.items()}
    found[COMPUTE] = np.where(found[COMPUTE] >= 0, found[COMPUTE] + overlapped[number[burst]], -1)
    return found


def slow_group(calls: StragglerCalls, kind: Int64, worker: int, others: Sequence[int], main: int, steps: Bool) -> int:
    """Returns the group in which a worker has the largest extra communication, excluding the group ``main`` (-1 =
    none).

    ``kind`` is the purpose of each group. Workers are compared by purpose, even if their groups differ.
    """
    rows = np.flatnonzero((calls.step < len(steps)) & (calls.group != main))
    rows = rows[steps[calls.step[rows]]]
    everyone = np.array([worker, *others], np.int64)
    place = np.full(int(max(calls.worker.max(initial=-1), everyone.max())) + 1, -1)
    place[everyone] = np.arange(len(everyone))
    rows = rows[place[calls.worker[rows]] >= 0]
    mine = rows[calls.worker[rows] == worker]
    if not len(mine) or not len(others):
        return -1
    kinds = int(kind.max()) + 1
    at = place[calls.worker[rows]] * kinds + kind[calls.group[rows]]
    total = sum_by(at, calls.blocked_ns[rows], len(everyone) * kinds).reshape(-1, kinds)
    most = int(np.argmax(total[0] - np.median(total[1:], axis=0)))
    of_kind = mine[kind[calls.group[mine]] == most]
    return int(calls.group[of_kind[0]]) if len(of_kind) else -1
