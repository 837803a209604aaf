"""Why a straggler is late: what it does before its collectives that the others of its group do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import sum_by
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals
from tb_plugin.views.distributed.stragglers.calls import StragglerCalls
from tb_plugin.views.distributed.stragglers.detection import Stragglers
from tb_plugin.views.distributed.stragglers.intervals import COMPUTE, IDLE, Stretches, stretches

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

COMMUNICATION = "communication"
COMPONENTS = (COMPUTE, COMMUNICATION, "copy", "input", "host", IDLE)
"""What a worker does before a collective, as its part splits the time; columns ``before_*_ns``."""


@dataclass(frozen=True, eq=False)
class Excess:
    """What a straggler does longer than the others of its group before the collectives at which they wait for it."""

    ns: Mapping[str, int]
    """By component, sums over these collectives; below 0 where it does less."""
    collectives: int
    """How many they are; 0: nothing is known."""
    cost_ns: int
    """What these collectives cost."""

    @property
    def main(self) -> str:
        """Returns the component that explains most of it; empty where none does."""
        most = max(self.ns, key=lambda key: self.ns[key], default="")
        return most if most and self.ns[most] > 0 else ""

    def share(self, component: str) -> float:
        """Returns the part that a component has of all that the straggler does longer."""
        total = sum(max(value, 0) for value in self.ns.values())
        return max(self.ns.get(component, 0), 0) / total if total else 0.0

    @property
    def unexplained_ns(self) -> int:
        """Returns what of the cost nothing that differs explains."""
        return max(self.cost_ns - sum(self.ns.values()), 0)


def excesses(met: Arrivals, found: Stragglers, before: Mapping[str, Int64], burst: Int64) -> dict[int, Excess]:
    """Returns for each straggler what differs, at the collectives of its main group in its late steps at which it is last.

    ``before`` has the components of each call, -1 where they are not known. What a straggler does is compared with the median
    of the others at the same collective, component by component. ``burst`` says which calls are under way at once: of those
    of a straggler the one that costs most is looked at, for what stands before them is the same. Where it lost calls of the
    group, or alone has them, it is compared since the last one that it and the others have.
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
    # A collective counts where what the last one and any other did is known.
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
    """Of the last one at collectives, and the others there, those that are compared, since which burst each is, and who is
    left out.

    That is since the last call with a match that the last one has of the group before: who lacks that is not compared, nor
    where what either did since is not known. Where it has none, all whose first call is in the same step are, since its
    begin. A straggler of whom nothing would be left keeps all, each since its own last call: better compared roughly than not
    at all.
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
    """Marks of the collectives that are asked for the costliest one of each burst."""
    rows = np.flatnonzero(asked)
    order = rows[np.lexsort((-cost[rows], burst[rows]))]
    marked = np.zeros(len(asked), np.bool_)
    marked[order[np.diff(burst[order], prepend=-1) != 0]] = True
    return marked


def slow_group(met: StragglerCalls, kind: Int64, worker: int, others: Sequence[int], main: int, steps: Bool) -> int:
    """Returns the group, other than its main one, in which a worker communicates most beyond what the others do; -1 for none.

    ``kind`` says which groups are for one purpose: they are compared, each worker's own one of that kind.
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
    """The median of the values of each key, whose rows stand together; keys of one size are looked at together."""
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
