"""Why a straggler is late: what it does before its collectives that the others of its group do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.distributed.matching.codes import codes, on_one_axis
from tb_plugin.analyses.distributed.stragglers.arrivals import Arrivals
from tb_plugin.analyses.distributed.stragglers.met import Met, call_before
from tb_plugin.analyses.distributed.stragglers.stragglers import Stragglers
from tb_plugin.analyses.grouping import sum_by
from tb_plugin.trace.memo import remembered

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

COMPUTE, COMMUNICATION = "compute", "communication"
COMPONENTS = (COMPUTE, COMMUNICATION, "copy", "input", "host", "idle")
"""What a worker does before a collective, as its part splits the time; columns ``before_*_ns``."""
_NONE = -2
"""Stands for the match of a call before the first one."""


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


def own_work(met: Met, before: Mapping[str, Int64], first: Int64) -> dict[str, Int64]:
    """Returns the components with what each call hides, which is computation of the same stretch between two that block.

    While others wait for a straggler in a call that they hide they go on with what it does before the next one. Calls of a
    group that are under way at once have one time before them: what was done before the ``first`` (``bursts``) is before all
    of them.
    """
    if COMPUTE not in before:
        return dict(before)
    found = {key: np.where(values >= 0, values[first], values) for key, values in before.items()}
    compute = found[COMPUTE]
    return {**found, COMPUTE: np.where(compute >= 0, compute + _hidden(met), compute)}


@remembered
def bursts(met: Met) -> Int64:
    """Returns for each call the first one of those of its worker and group that are under way at once with it."""
    own = codes(met.worker, met.group)
    order = np.lexsort((met.start_ns, own))
    opens = np.diff(own[order], prepend=-1) != 0
    start, end = on_one_axis(own[order], met.start_ns[order], (met.start_ns + met.dur_ns)[order])
    opens[1:] |= start[1:] >= np.maximum.accumulate(end)[:-1]
    first = np.empty(len(order), np.int64)
    first[order] = order[np.maximum.accumulate(np.where(opens, np.arange(len(order)), 0))]
    return first


def _hidden(met: Met) -> Int64:
    """How long each call's worker computes meanwhile, at least: moments in which a later call blocks it are none of that."""
    order = np.lexsort((met.start_ns, met.worker))
    start, end = on_one_axis(met.worker[order], met.start_ns[order], (met.start_ns + met.dur_ns)[order])
    total = np.append(0, np.cumsum(met.blocked_ns[order]))
    later = np.searchsorted(start, end, side="left")
    mine = np.arange(len(order))
    hidden = np.empty(len(order), np.int64)
    hidden[order] = np.maximum(met.dur_ns[order] - (total[np.maximum(later, mine + 1)] - total[mine]), 0)
    return hidden


def excesses(met: Arrivals, found: Stragglers, before: Mapping[str, Int64], burst: Int64) -> dict[int, Excess]:
    """Returns for each straggler what differs, at the collectives of its main group in its late steps at which it is last.

    ``before`` has the components of each call, -1 where they are not known. What a straggler does is compared with the median
    of the others at the same collective, component by component. ``burst`` says which calls are under way at once: of those
    of a straggler the one that costs most is looked at, for what stands before them is the same. Who lost the call before of
    the group, or alone has it, is not compared: what it did since is more, or less, than what the others did.
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
    known = np.all([before[key][met.row[rows]] >= 0 for key in COMPONENTS], axis=0)
    is_last = np.zeros(len(met.row), np.bool_)
    is_last[met.last] = True
    mine, others = rows[known & is_last[rows]], rows[known & ~is_last[rows]]
    # A collective counts where what the last one and any other did is known.
    both = np.intersect1d(met.collective[mine], met.collective[others])
    mine, others = (each[np.isin(met.collective[each], both)] for each in (mine, others))
    since = call_before(met.met)[burst]
    mine, others, left_out = _since_the_same(met, mine, others, np.where(since >= 0, met.met.match[since], _NONE))
    cost -= sum_by(met.worker[left_out], met.high_ns[met.collective[left_out]], len(main))
    who = met.worker[mine]
    count = np.bincount(who, minlength=len(main))
    more = {}
    for key in COMPONENTS:
        usual = _medians(before[key][met.row[others]], met.collective[others])
        total = np.zeros(len(main), np.int64)
        np.add.at(total, who, before[key][met.row[mine]] - usual)
        more[key] = total
    return {
        one: Excess({key: int(more[key][one]) for key in COMPONENTS}, int(count[one]), int(cost[one]))
        for one in told.tolist()
        if count[one]
    }


def _since_the_same(met: Arrivals, mine: Int64, others: Int64, before: Int64) -> tuple[Int64, Int64, Int64]:
    """Of the last one at collectives, and the others there, those whose call before is the same, and who is left out.

    A straggler of whom nothing would be left keeps all: better compared roughly than not at all.
    """
    asked = np.full(len(met.last), _NONE)
    asked[met.collective[mine]] = before[met.row[mine]]
    fair = others[before[met.row[others]] == asked[met.collective[others]]]
    told = np.isin(met.collective[mine], met.collective[fair])
    rough = ~np.isin(met.worker[mine], met.worker[mine[told]])
    roughly = others[np.isin(met.collective[others], met.collective[mine[rough]])]
    return mine[told | rough], np.union1d(fair, roughly), mine[~(told | rough)]


def _costliest(asked: Bool, burst: Int64, cost: Int64) -> Bool:
    """Marks of the collectives that are asked for the costliest one of each burst."""
    rows = np.flatnonzero(asked)
    order = rows[np.lexsort((-cost[rows], burst[rows]))]
    marked = np.zeros(len(asked), np.bool_)
    marked[order[np.diff(burst[order], prepend=-1) != 0]] = True
    return marked


def slow_group(met: Met, kind: Int64, worker: int, others: Sequence[int], main: int, steps: Bool) -> int:
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
