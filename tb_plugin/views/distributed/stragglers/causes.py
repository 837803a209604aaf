"""Causes of lateness: extra activities before collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.groupby import sum_by
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals
from tb_plugin.views.distributed.stragglers.calls import StragglerCalls
from tb_plugin.views.distributed.stragglers.detection import Stragglers
from tb_plugin.views.distributed.stragglers.intervals import COMPUTE, IDLE, Stretches, stretches

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

COMMUNICATION = "communication"
# activities before a collective; columns before_*_ns
COMPONENTS = (COMPUTE, COMMUNICATION, "copy", "input", "host", IDLE)


@dataclass(frozen=True, eq=False)
class Excess:
    """Extra time of a straggler before the collectives where others wait for it."""

    ns: Mapping[str, int]
    """By component, summed over these collectives; negative if it does less."""
    collectives: int
    """Number of these collectives; 0: unknown."""
    cost_ns: int
    """Cost of these collectives."""

    @property
    def main(self) -> str:
        """Returns the component with the largest extra time; empty if there is none."""
        most = max(self.ns, key=lambda key: self.ns[key], default="")
        return most if most and self.ns[most] > 0 else ""

    def share(self, component: str) -> float:
        """Returns the share of a component in all extra time."""
        total = sum(max(value, 0) for value in self.ns.values())
        return max(self.ns.get(component, 0), 0) / total if total else 0.0

    @property
    def unexplained_ns(self) -> int:
        """Returns the part of the cost without an explanation, ns."""
        return max(self.cost_ns - sum(self.ns.values()), 0)


def excesses(met: Arrivals, found: Stragglers, before: Mapping[str, Int64], burst: Int64) -> dict[int, Excess]:
    """Returns the extra time of each straggler, at the collectives of its main group in its late steps where it is last.

    ``before`` has the components of each call, -1 if unknown. Each component is compared with the median of the others at the
    same collective. ``burst`` marks concurrent calls: only the costliest of a straggler's burst counts, since the time before
    them is the same. If the straggler lost calls of the group, or is the only one with some, the comparison starts at the
    last common call.
    """
    told = found.told
    if not len(told) or any(key not in before for key in COMPONENTS):
        return {}
    main = np.full(len(found.lost_ns), -1)
    main[told] = [found.group[found.main_group(one)] for one in told.tolist()]
    culprit, steps = met.culprit, found.slow.shape[1]
    asked = (met.raw_ns > 0) & (met.row[met.last] >= 0) & (met.step < steps) & (main[culprit] == met.group)
    asked[asked] = found.slow[culprit[asked], met.step[asked]]
    cost = sum_by(culprit[asked], met.high_ns[asked], len(main))
    asked = _costliest(asked, burst[np.maximum(met.row[met.last], 0)], met.high_ns)
    rows = np.flatnonzero(asked[met.collective] & (met.row >= 0))
    known = np.all([before[key][burst[met.row[rows]]] >= 0 for key in COMPONENTS], axis=0)
    is_last = np.zeros(len(met.row), np.bool_)
    is_last[met.last] = True
    mine, others = rows[known & is_last[rows]], rows[known & ~is_last[rows]]
    # A collective counts if the activities of the last rank and of another one are known.
    both = np.intersect1d(met.collective[mine], met.collective[others])
    mine, others = (each[np.isin(met.collective[each], both)] for each in (mine, others))
    stretch = stretches(met.met, before, burst)
    mine, others, since_mine, since_others, left_out = _since_the_same(met, mine, others, stretch)
    cost -= sum_by(met.worker[left_out], met.high_ns[met.collective[left_out]], len(main))
    who = met.worker[mine]
    count = np.bincount(who, minlength=len(main))
    more = {}
    for key in COMPONENTS:
        usual = _medians(stretch.done(key, met.row[others], since_others), met.collective[others])
        total = np.zeros(len(main), np.int64)
        np.add.at(total, who, stretch.done(key, met.row[mine], since_mine) - usual)
        more[key] = total
    return {
        one: Excess({key: int(more[key][one]) for key in COMPONENTS}, int(count[one]), int(cost[one]))
        for one in told.tolist()
        if count[one]
    }


def _since_the_same(
    met: Arrivals, mine: Int64, others: Int64, stretch: Stretches
) -> tuple[Int64, Int64, Int64, Int64, Int64]:
    """Selects the comparable calls of the last rank and of the others, with the burst since which each is compared, and the
    rest.

    The comparison starts at the last matched call of the last rank in the group: workers without that call, or with unknown
    time since then, are not compared. Without such a call, all workers whose first call is in the same step are compared from
    its start. A straggler that would lose all its collectives keeps them, each since its own last call: a rough comparison is
    better than none.
    """
    row, which = met.row, met.collective
    asked = np.full(len(met.last), -1)
    asked[which[mine]] = mine
    leader = row[asked[which[others]]]
    there = stretch.same_call(leader, row[others])
    since_mine = stretch.since(row[mine], stretch.before[row[mine]])
    since_others = stretch.since(row[others], there)
    known = np.zeros(len(met.last), np.bool_)
    known[which[mine]] = stretch.is_known(row[mine], since_mine)
    opened = (stretch.before[leader] < 0) & (stretch.opens[leader] == stretch.opens[row[others]])
    fair = ((there >= 0) | opened) & known[which[others]] & stretch.is_known(row[others], since_others)
    told = np.isin(which[mine], which[others[fair]])
    rough = ~np.isin(met.worker[mine], met.worker[mine[told]])
    roughly = np.isin(which[others], which[mine[rough]])
    since_mine[rough], since_others[roughly] = stretch.burst[row[mine[rough]]], stretch.burst[row[others[roughly]]]
    told, fair = told | rough, fair | roughly
    return mine[told], others[fair], since_mine[told], since_others[fair], mine[~told]


def _costliest(asked: Bool, burst: Int64, cost: Int64) -> Bool:
    """Marks the costliest selected collective of each burst."""
    rows = np.flatnonzero(asked)
    order = rows[np.lexsort((-cost[rows], burst[rows]))]
    marked = np.zeros(len(asked), np.bool_)
    marked[order[np.diff(burst[order], prepend=-1) != 0]] = True
    return marked


def slow_group(met: StragglerCalls, kind: Int64, worker: int, others: Sequence[int], main: int, steps: Bool) -> int:
    """Returns the group, other than the main one, with the largest extra communication of a worker; -1 for none.

    ``kind`` numbers the purposes of groups: each worker's own group of a kind is compared.
    """
    rows = np.flatnonzero((met.step < len(steps)) & (met.group != main))
    rows = rows[steps[met.step[rows]]]
    everyone = np.array([worker, *others], np.int64)
    place = np.full(int(max(met.worker.max(initial=-1), everyone.max())) + 1, -1)
    place[everyone] = np.arange(len(everyone))
    rows = rows[place[met.worker[rows]] >= 0]
    mine = rows[met.worker[rows] == worker]
    if not len(mine) or not len(others):
        return -1
    kinds = int(kind.max()) + 1
    at = place[met.worker[rows]] * kinds + kind[met.group[rows]]
    total = sum_by(at, met.blocked_ns[rows], len(everyone) * kinds).reshape(-1, kinds)
    most = int(np.argmax(total[0] - np.median(total[1:], axis=0)))
    of_kind = mine[kind[met.group[mine]] == most]
    return int(met.group[of_kind[0]]) if len(of_kind) else -1


def _medians(values: Int64, key: Int64) -> Int64:
    """Median of the values of each key, for sorted keys; keys with equal counts are processed together."""
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
