"""Causes of lateness: extra activities before collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import sum_by
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals
from tb_plugin.views.distributed.stragglers.calls import StragglerCalls
from tb_plugin.views.distributed.stragglers.detection import Stragglers
from tb_plugin.views.distributed.stragglers.intervals import COMPUTE, IDLE, Stretches, activities_before_bursts

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

COMMUNICATION = "communication"
# activities before a collective, from the columns before_*_ns
COMPONENTS = (COMPUTE, COMMUNICATION, "copy", "input", "host", IDLE)


class Excess(msgspec.Struct, frozen=True, eq=False):
    """Extra time that a straggler spends before the collectives at which other ranks wait for the straggler."""

    ns: Mapping[str, int]
    """Extra time of each component, summed over the collectives.

    Negative if the straggler spends less time than others.
    """
    collectives: int
    cost_ns: int

    @property
    def main(self) -> str:
        """Returns the component with the largest extra time, or "" if no component has extra time."""
        most = max(self.ns, key=lambda key: self.ns[key], default="")
        return most if most and self.ns[most] > 0 else ""

    def share(self, component: str) -> float:
        """Returns the share of a component in the sum of all positive extra times."""
        total = sum(max(value, 0) for value in self.ns.values())
        return max(self.ns.get(component, 0), 0) / total if total else 0.0

    @property
    def unexplained_ns(self) -> int:
        """Returns the part of the cost that the components do not explain, ns."""
        return max(self.cost_ns - sum(self.ns.values()), 0)


def extra_times(arrived: Arrivals, found: Stragglers, before: Mapping[str, Int64], burst: Int64) -> dict[int, Excess]:
    """Returns the extra time of each straggler, keyed by worker.

    Only late steps of a straggler are used, and only collectives of its main group at which the straggler arrives
    last. Each component is compared with the median of the other ranks before the same collective. ``before`` has
    the time of each component before each call (-1 = unknown). ``burst`` is equal for concurrent calls. Only the
    costliest of several concurrent calls counts, because the time before these calls is the same.
    """
    workers = found.significant
    if not len(workers) or any(key not in before for key in COMPONENTS):
        return {}
    main = np.full(len(found.lost_ns), -1)
    main[workers] = [found.group[found.main_group(one)] for one in workers.tolist()]
    culprit, steps = arrived.culprit, found.slow.shape[1]
    selected = (
        (arrived.raw_ns > 0)
        & (arrived.row[arrived.last] >= 0)
        & (arrived.step < steps)
        & (main[culprit] == arrived.group)
    )
    selected[selected] = found.slow[culprit[selected], arrived.step[selected]]
    cost = sum_by(culprit[selected], arrived.high_ns[selected], len(main))
    selected = _costliest(selected, burst[np.maximum(arrived.row[arrived.last], 0)], arrived.high_ns)
    rows = np.flatnonzero(selected[arrived.collective] & (arrived.row >= 0))
    is_known = np.all([before[key][burst[arrived.row[rows]]] >= 0 for key in COMPONENTS], axis=0)
    is_last = np.zeros(len(arrived.row), np.bool_)
    is_last[arrived.last] = True
    mine, others = rows[is_known & is_last[rows]], rows[is_known & ~is_last[rows]]
    # Only collectives with known activities of the last rank and of at least one other rank.
    both = np.intersect1d(arrived.collective[mine], arrived.collective[others])
    mine, others = (each[np.isin(arrived.collective[each], both)] for each in (mine, others))
    stretch = activities_before_bursts(arrived.calls, before, burst)
    mine, others, since_mine, since_others, left_out = _comparable_rows(arrived, mine, others, stretch)
    cost -= sum_by(arrived.worker[left_out], arrived.high_ns[arrived.collective[left_out]], len(main))
    who = arrived.worker[mine]
    count = np.bincount(who, minlength=len(main))
    more = {}
    for key in COMPONENTS:
        usual = _medians(stretch.done(key, arrived.row[others], since_others), arrived.collective[others])
        total = np.zeros(len(main), np.int64)
        np.add.at(total, who, stretch.done(key, arrived.row[mine], since_mine) - usual)
        more[key] = total
    return {
        one: Excess({key: int(more[key][one]) for key in COMPONENTS}, int(count[one]), int(cost[one]))
        for one in workers.tolist()
        if count[one]
    }


def _comparable_rows(
    arrived: Arrivals, mine: Int64, others: Int64, stretch: Stretches
) -> tuple[Int64, Int64, Int64, Int64, Int64]:
    """Returns comparable calls of the last rank and of other ranks, the burst at which each comparison starts, and
    calls of the last rank without a comparison. A burst is a set of concurrent calls.

    Usually the comparison starts after the last matched call of the last rank. Without such a call, the comparison
    starts at the first call, for ranks whose first call is in the same step. Ranks with unknown time in between are
    excluded. If nothing is comparable for a straggler, the time since each rank's previous call is used.
    """
    row, which = arrived.row, arrived.collective
    row_of_last = np.full(len(arrived.last), -1)
    row_of_last[which[mine]] = mine
    leader = row[row_of_last[which[others]]]
    same_call = stretch.same_call(leader, row[others])
    since_mine = stretch.since(row[mine], stretch.before[row[mine]])
    since_others = stretch.since(row[others], same_call)
    known = np.zeros(len(arrived.last), np.bool_)
    known[which[mine]] = stretch.is_complete(row[mine], since_mine)
    opened = (stretch.before[leader] < 0) & (stretch.opens[leader] == stretch.opens[row[others]])
    is_fair = ((same_call >= 0) | opened) & known[which[others]] & stretch.is_complete(row[others], since_others)
    is_comparable = np.isin(which[mine], which[others[is_fair]])
    rough = ~np.isin(arrived.worker[mine], arrived.worker[mine[is_comparable]])
    roughly = np.isin(which[others], which[mine[rough]])
    since_mine[rough], since_others[roughly] = stretch.burst[row[mine[rough]]], stretch.burst[row[others[roughly]]]
    is_comparable, is_fair = is_comparable | rough, is_fair | roughly
    return mine[is_comparable], others[is_fair], since_mine[is_comparable], since_others[is_fair], mine[~is_comparable]


def _costliest(selected: Bool, burst: Int64, cost: Int64) -> Bool:
    rows = np.flatnonzero(selected)
    order = rows[np.lexsort((-cost[rows], burst[rows]))]
    marked = np.zeros(len(selected), np.bool_)
    marked[order[np.diff(burst[order], prepend=-1) != 0]] = True
    return marked


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


def _medians(values: Int64, key: Int64) -> Int64:
    first = np.flatnonzero(np.diff(key, prepend=-1))
    count = np.diff(np.append(first, len(key)))
    found = np.empty(len(first), np.int64)
    for size in np.unique(count).tolist():
        places = np.flatnonzero(count == size)
        block = values[first[places][:, None] + np.arange(size)]
        low, high = (size - 1) // 2, size // 2
        block = np.partition(block, (low, high), axis=1)
        found[places] = (block[:, low] + block[:, high]) // 2
    return found
