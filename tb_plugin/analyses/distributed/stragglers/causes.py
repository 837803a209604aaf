"""Why a straggler is late: what it does before its collectives that the others of its group do not, and who held it up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.distributed.matching.codes import codes, on_one_axis
from tb_plugin.analyses.distributed.stragglers.arrivals import Arrivals
from tb_plugin.analyses.distributed.stragglers.inherited import waited_elsewhere
from tb_plugin.analyses.distributed.stragglers.met import Met
from tb_plugin.analyses.distributed.stragglers.stragglers import Stragglers
from tb_plugin.analyses.grouping import sum_by
from tb_plugin.trace.memo import remembered

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

COMPUTE, COMMUNICATION = "compute", "communication"
COMPONENTS = (COMPUTE, COMMUNICATION, "copy", "input", "host", "idle")
"""What a worker does before a collective, as its part splits the time; columns ``before_*_ns``."""
_MOST, _SOME = 0.5, 0.1
"""Shares of a wait: who was held up for most of it is not late on its own account; some is more than noise."""
_HOPS = 64
"""So many ranks that held up one another are followed at least."""


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
    mine, others, left_out = _since_the_same(met, mine, others, _call_before(met.met, burst))
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


def _call_before(met: Met, burst: Int64) -> Int64:
    """The match of the call of its group before each call, or before those under way at once with it; -2 for none."""
    own = codes(met.worker, met.group)
    order = np.argsort(own, kind="stable")
    before = np.full(len(own), -2)
    again = np.flatnonzero(np.diff(own[order]) == 0)
    before[order[again + 1]] = met.match[order[again]]
    return before[burst]


def _since_the_same(met: Arrivals, mine: Int64, others: Int64, before: Int64) -> tuple[Int64, Int64, Int64]:
    """Of the last one at collectives, and the others there, those whose call before is the same, and who is left out.

    A straggler of whom nothing would be left keeps all: better compared roughly than not at all.
    """
    asked = np.full(len(met.last), -2)
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


@dataclass(frozen=True, eq=False)
class Roots:
    """Who is at the root of what each call of Met waits for: one that was not itself held up elsewhere before."""

    by: Int64
    """The worker; -1 where nobody is awaited, or it is not known for whom one on the way to it waited."""
    group: Int64
    """The group in which that one was late; -1 where ``by`` is."""


def waits(met: Met) -> Bool:
    """Returns which calls wait for another worker, as far as it is known for which."""
    last = met.waiting.last
    found: Bool = (met.match >= 0) & (met.dur_ns > met.waiting.transfer_ns) & (last >= 0) & (last != met.worker)
    return found


def roots(met: Met) -> Roots:
    """Returns the roots of all calls: followed call by call, each back to the one in which its last worker waited longest.

    That worker was held up where it waited for so much longer in other groups than who waits for it that this is most of
    the wait; of a message some of it will do: the rest is waited by the plan of the program, and nobody is late. What
    computation hides holds up as well: a hidden call costs nothing, but leaves its ranks apart.
    """
    # Of messages those of one pair of ranks are a group: what one waits for a third rank it passes on.
    other = _other_end(met)
    pair = codes(np.minimum(met.worker, other), np.maximum(met.worker, other))
    met_in = replace(met, group=np.where(met.two_ended, pair, met.group)) if met.two_ended.any() else met
    # Calls of a group that are under way at once are late by what was before the first of them.
    first = bursts(met_in)
    elsewhere = waited_elsewhere(met_in)[first]
    last = met.waiting.last
    wait = np.where(met.match >= 0, met.dur_ns - met.waiting.transfer_ns, 0)
    waiting = waits(met)
    late = np.full(int(met.match.max(initial=-1)) + 2, -1)  # the last one is for calls without a match
    is_last = np.flatnonzero((met.match >= 0) & (met.worker == last))
    late[met.match[is_last]] = is_last
    its = np.where(waiting & (late[met.match] >= 0), first[late[met.match]], -1)
    more = np.where(its >= 0, elsewhere[its] - elsewhere, 0)
    held = np.flatnonzero(more > np.where(met.two_ended, _SOME, _MOST) * wait)
    onward = np.arange(len(wait))
    onward[held] = _longest_elsewhere(met, elsewhere, its[held], _SOME * wait[held])
    for _ in range(_HOPS.bit_length()):
        onward = onward[onward]
    # A message whose other end is not here names nobody, and neither does a circle of calls under way at once.
    known = waiting & waiting[onward] & (onward[onward] == onward)
    return Roots(np.where(known, last[onward], -1), np.where(known, met.group[onward], -1))


def _other_end(met: Met) -> Int64:
    """The other worker of each message of which both ends are here; else the worker itself."""
    ends = np.flatnonzero(met.two_ended & (met.match >= 0))
    total = np.zeros(int(met.match.max(initial=-1)) + 1, np.int64)
    np.add.at(total, met.match[ends], met.worker[ends])
    ends = ends[np.bincount(met.match[ends], minlength=len(total))[met.match[ends]] == 2]
    other = met.worker.copy()
    other[ends] = total[met.match[ends]] - met.worker[ends]
    return other


def _longest_elsewhere(met: Met, elsewhere: Int64, late: Int64, enough: Float64) -> Int64:
    """For each of the ``late`` calls the call of the same worker in which it waited longest of what it waited ``elsewhere``.

    Of collectives, where that is ``enough``: messages are waited for by plan.
    """
    order = np.argsort(met.worker, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    length = np.where(met.match >= 0, met.dur_ns - met.waiting.transfer_ns, np.where(met.two_ended, met.dur_ns, 0))
    length = np.minimum(length, met.blocked_ns)[order]
    total, end = np.cumsum(length), place[late]
    # Of one group no call blocks between two that do, so that all waits from here on are elsewhere: their sum tells where.
    begin = np.searchsorted(total, (total - length)[end] - elsewhere[late], side="right")
    met_all = np.where(met.two_ended[order], 0, length)
    best = _largest(met_all, begin, end)
    return order[np.where(met_all[best] > enough, best, _largest(length, begin, end))]


def _largest(values: Int64, begin: Int64, end: Int64) -> Int64:
    """The place of the largest value in each of some ranges that are not empty."""
    best, size = np.arange(len(values)), 1
    found = np.empty(len(begin), np.int64)
    width = end - begin
    while len(best):
        asked = np.flatnonzero((width >= size) & (width < 2 * size))
        left, right = best[begin[asked]], best[end[asked] - size]
        found[asked] = np.where(values[right] > values[left], right, left)
        left, right = best[:-size], best[size:]
        best = np.where(values[right] > values[left], right, left)
        size *= 2
    return found


@dataclass(frozen=True, eq=False)
class HeldUp:
    """Who held up workers in groups (rows of Stragglers), and in which group that was; -1 where nobody did."""

    inherited_ns: Int64
    """What they cost there that is no fault of theirs, sums over the collectives."""
    by: Int64
    """The worker at the root: one that was not itself held up."""
    group: Int64
    """The group in which that worker was late."""


def held_up(met: Met, arrived: Arrivals, found: Stragglers, root: Roots) -> HeldUp:
    """Returns for each worker in a group who held it up elsewhere before it was late there."""
    count = len(found.worker)
    groups = int(max(found.group.max(initial=-1), met.group.max(initial=-1))) + 1
    row_of = np.full((len(found.lost_ns), max(groups, 1)), -1)
    row_of[found.worker, found.group] = np.arange(count)
    at = row_of[arrived.culprit, arrived.group]
    inherited = np.bincount(at, weights=arrived.inherited_ns, minlength=count).astype(np.int64)
    by, of = np.full(count, -1), np.full(count, -1)
    last = met.waiting.last
    calls = np.flatnonzero((root.by >= 0) & (root.by != last) & ~met.two_ended)
    row = row_of[last[calls], met.group[calls]]
    calls, row = calls[inherited[row] > 0], row[inherited[row] > 0]
    _, first, which = np.unique(codes(row, root.by[calls], root.group[calls]), return_index=True, return_inverse=True)
    total = np.bincount(which, weights=(met.dur_ns - met.waiting.transfer_ns)[calls], minlength=len(first))
    # The one with most is written last.
    order = first[np.argsort(total, kind="stable")]
    by[row[order]], of[row[order]] = root.by[calls[order]], root.group[calls[order]]
    return HeldUp(inherited, by, of)


def passed_on(met: Met, root: Roots, calls: Int64) -> tuple[int, float]:
    """Returns who is at the root of most of what some calls wait for a worker, and how long each rank waits so in the mean.

    -1 and 0 where that is the worker itself, or nobody is at the root of more than half.
    """
    wait = met.dur_ns[calls] - met.waiting.transfer_ns[calls]
    by = root.by[calls]
    total = np.bincount(by + 1, weights=wait)
    most = int(np.argmax(total)) - 1 if len(total) else -1
    if most < 0 or most == met.waiting.last[calls[0]] or total[most + 1] <= _MOST * wait.sum():
        return -1, 0.0
    return most, float(total[most + 1]) / len(np.unique(met.worker[calls[by == most]]))
