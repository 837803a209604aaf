"""Which workers the others wait for, what that costs a step, and in which steps it does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.job_tables.outliers import CRITICAL_Q
from tb_plugin.lib.groupby import Groups, codes, group, sum_by
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals
from tb_plugin.views.distributed.stragglers.lower_bound import gained
from tb_plugin.views.distributed.stragglers.patterns import (
    FEWEST,
    IRREGULAR,
    MOST,
    PERIODIC,
    PERSISTENT,
    ROTATING,
    SINGLE,
    is_chance,
    is_scatter,
    pattern,
    rotates,
)

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

WORTH = 0.01
"""Share of a step that a worker has to cost before it is looked at: less is lost in the noise of steps."""
DIXON_MOST = 5
"""In groups of so many workers (3 at least) Dixon's Q says which one stands out, in larger ones the robust z."""
Z_LIMIT = 3.5
"""From this robust z on a value stands out."""
_TO_SIGMA = 1.4826
"""A median absolute deviation times this is the standard deviation of normal values."""
_SIGMAS = 8
"""A step in which a worker is late by less than so many standard deviations of the others is like any other."""
_AGAIN = 2
"""So many are enough for one that is late again and again: there chance is excluded by how often it is last."""
_ALONE = 5
"""A worker that is late once has to cost so many times as much as what else comes up now and then."""
_NOW_AND_THEN = 3
"""So many larger ones are passed over before that is looked up: there may be several that are late once."""
_FEW = 5
"""Of fewer steps nobody knows how they vary: who is late has to cost so much that it is told from any tail of noise."""
_SURE = 10
"""Of so many workers, the costliest, it is looked up what is gained for sure."""
_ENOUGH = 20
"""Of fewer workers and steps, one for each other, nobody knows what comes up now and then."""


@dataclass(frozen=True, eq=False)
class Stragglers:
    """Workers in groups (k rows), and what each worker (w of them) costs in each of the chosen steps (s)."""

    worker: Int64
    group: Int64
    size: Int64
    """Workers of the group that are here."""
    collectives: Int64
    """Those of the group that it takes part in."""
    last: Int64
    """At how many of them it arrives last."""
    late_ns: Float64
    """Median of its lateness."""
    late_p95_ns: Float64
    z: Float64
    """Robust z of the median among those of the group's workers; NaN in small groups."""
    q: Float64
    """Dixon's Q of it, for the latest worker of a small group; NaN elsewhere."""
    outlying: Bool
    """It stands out of its group by z, by Q, because chance makes nobody last so often, or because it costs so much more than
    the others of its group in each step that how steps vary does not explain it."""
    cost_ns: Int64
    """Sum over the collectives."""
    low_ns: Int64
    lost_ns: Int64
    """[worker, step]: what would be gained if it were as fast as the next. Of several groups the one with the most:
    each sees the same delays."""
    lost_low_ns: Int64
    """[worker, step]: at least."""
    slow: Bool
    """[worker, step]: it costs more than noise does."""
    pattern: tuple[str, ...]
    """When each worker is late; empty: no straggler."""
    every: Int64
    """A worker that is late periodically is so at every so many steps; else 0."""

    @property
    def told(self) -> Int64:
        """Returns the workers that are stragglers, the costliest first."""
        found = np.array([bool(name) for name in self.pattern], np.bool_)
        cost = self.lost_ns.sum(axis=1)
        order = np.lexsort((np.arange(len(cost)), -cost))
        return order[found[order]]

    def main_group(self, worker: int) -> int:
        """Returns the row of the group in which a worker costs most."""
        rows = np.flatnonzero(self.worker == worker)
        return int(rows[np.argmax(self.cost_ns[rows])])


def stragglers(met: Arrivals, workers: int, step_ns: Float64) -> Stragglers:
    """Returns who costs what. ``step_ns`` has the time of each chosen step; calls of none have a step beyond it."""
    of = codes(met.worker, met.group[met.collective])
    mine = group(of)
    first = mine.first
    worker, its_group = met.worker[first], met.group[met.collective][first]
    size = _sizes(its_group)
    last_of = mine.of[met.last]
    in_steps = met.step < len(step_ns)
    high = sum_by(last_of, np.where(in_steps, met.high_ns, 0), len(mine))
    low = np.where(met.sure & in_steps, met.low_ns, 0)
    median, p95 = mine.percentiles(met.late_ns, 0.5, 0.95)
    times = np.bincount(last_of[met.raw_ns > 0], minlength=len(mine)).astype(np.int64)
    trials = np.bincount(mine.of[met.told[met.collective]], minlength=len(mine)).astype(np.int64)
    z, q, out = _standing_out(its_group, median, size)
    shape = (workers, len(step_ns))
    entries = _Entries.of(met, mine, last_of, low, shape)
    lost, lost_low = _lost(met, entries, worker, shape)
    noise, top = _noise(met, mine, its_group, size, shape)
    often = ~is_chance(times, trials, size) | ~is_chance(top.sum(axis=1), top.shape[1] * np.ones(len(mine)), size)
    often |= _costs_again(_beyond_others(entries, its_group, size, shape[1]), its_group, size)
    slow, often_slow = (_slow(entries, worker, noise * sigmas, step_ns, workers) for sigmas in (_SIGMAS, _AGAIN))
    most = np.bincount(lost.argmax(axis=0)[lost.any(axis=0)], minlength=workers)
    certain = ~is_chance(most, np.full(workers, shape[1]), np.full(workers, workers))
    smallest = np.full(workers, workers)
    np.minimum.at(smallest, worker, np.maximum(size, 1))
    certain |= ~is_chance(sum_by(worker, times, workers), sum_by(worker, trials, workers), smallest)
    certain[worker[out | often]] = True
    names, every, slow = _patterns(slow, often_slow, lost, certain)
    if 0 < shape[1] < _FEW:
        names = _far_beyond(names, slow, lost)
    return Stragglers(
        worker=worker,
        group=its_group,
        size=size,
        collectives=mine.count(),
        last=times,
        late_ns=median,
        late_p95_ns=p95,
        z=z,
        q=q,
        outlying=out | often,
        cost_ns=high,
        low_ns=sum_by(last_of, low, len(mine)),
        lost_ns=lost,
        lost_low_ns=lost_low,
        slow=slow,
        pattern=names,
        every=every,
    )


def _sizes(its_group: Int64) -> Int64:
    """How many rows have the group of each."""
    groups = group(its_group)
    return groups.count()[groups.of]


def _standing_out(its_group: Int64, median: Float64, size: Int64) -> tuple[Float64, Float64, Bool]:
    """Robust z, Dixon's Q and whether either says that a worker's lateness stands out in its group."""
    groups = group(its_group)
    center = _medians(groups, median)
    away = median - center[groups.of]
    spread = _medians(groups, np.abs(away))[groups.of]
    many, few = size > DIXON_MOST, (size >= 3) & (size <= DIXON_MOST)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(many & (spread > 0), away / (_TO_SIGMA * spread), np.nan)
    order = np.lexsort((median, groups.of))
    end = np.cumsum(groups.count()) - 1
    top = order[end]
    q = np.full(len(median), np.nan)
    held = few[top]
    top, end = top[held], end[held]
    ordered = median[order]
    whole = ordered[end] - ordered[end - size[top] + 1]
    q[top] = np.divide(ordered[end] - ordered[end - 1], whole, out=np.zeros(len(top)), where=whole > 0)
    limit = np.array([np.inf] * 3 + [CRITICAL_Q[n] / 1000 for n in range(3, DIXON_MOST + 1)])
    out = (z > Z_LIMIT) | (q > limit[np.minimum(size, DIXON_MOST)]) | (many & (spread == 0) & (away > 0))
    return z, q, out


def _medians(groups: Groups, values: Float64) -> Float64:
    order = np.lexsort((values, groups.of))
    count = groups.count()
    start = np.cumsum(count) - count
    ordered = values[order]
    middle: Float64 = (ordered[start + (count - 1) // 2] + ordered[start + count // 2]) / 2
    return middle


@dataclass(frozen=True, eq=False)
class _Entries:
    """Costs summed up by worker, group and step."""

    row: Int64
    """Row of the worker in the group."""
    step: Int64
    cost: Int64
    low: Int64

    @classmethod
    def of(cls, met: Arrivals, mine: Groups, last_of: Int64, low: Int64, shape: tuple[int, int]) -> _Entries:
        chosen = np.flatnonzero((met.step < shape[1]) & (met.high_ns > 0))
        key = last_of[chosen] * shape[1] + met.step[chosen]
        found, place = np.unique(key, return_inverse=True)
        row, step = np.divmod(found, max(shape[1], 1))
        cost = sum_by(place.astype(np.int64), met.high_ns[chosen], len(found))
        return cls(row, step, cost, sum_by(place.astype(np.int64), low[chosen], len(found)))


def _lost(met: Arrivals, entries: _Entries, worker: Int64, shape: tuple[int, int]) -> tuple[Int64, Int64]:
    """What each worker costs in each step, and what is surely gained without that: of the costliest ones, of others 0."""
    lost, low = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    np.maximum.at(lost, (worker[entries.row], entries.step), entries.cost)
    total = lost.sum(axis=1)
    asked = np.lexsort((np.arange(shape[0]), -total))[:_SURE]
    low[asked] = np.minimum(gained(met, asked, *shape), lost[asked])
    return lost, low


def _noise(met: Arrivals, mine: Groups, its_group: Int64, size: Int64, shape: tuple[int, int]) -> tuple[Float64, Bool]:
    """For each worker in a group the standard deviation of lateness in a step among the others, and where it was latest.

    The last of each collective is left out, and the latest of each step. Of a group of two it is how much their difference
    changes from step to step.
    """
    step = met.step[met.collective]
    late, there = _by_step(mine.of, step, met.late_ns, np.ones(len(step), np.bool_), (len(mine), shape[1]))
    behind = np.zeros(len(step), np.bool_)
    behind[met.last] = True
    apart, also = _by_step(mine.of, step, met.apart_ns, ~behind, (len(mine), shape[1]))
    noise, top = np.zeros(len(mine)), np.zeros((len(mine), shape[1]), np.bool_)
    groups = group(its_group)
    if not shape[1]:
        return noise, top
    for count in np.unique(size).tolist():
        rows = np.flatnonzero(size == count)
        if count < 2:
            continue
        members = rows[np.argsort(groups.of[rows], kind="stable")].reshape(-1, count)
        values = late[members]  # [group, worker, step]
        values[~there[members]] = np.nan
        latest = np.argmax(np.nan_to_num(values, nan=-np.inf), axis=1)
        known = there[members].sum(axis=1) > 1
        each, at = np.nonzero(known)
        top[members[each, latest[each, at]], at] = True
        if count > 2:
            values = np.where(also[members] & ~top[members], apart[members], np.nan)
        noise[members] = np.array([_spread(one) for one in values])[:, None]
    return noise, top


def _beyond_others(entries: _Entries, its_group: Int64, size: Int64, steps: int) -> Float64:
    """What each worker in a group costs in each step ([row, step]) less the mean of the others there: 0 for equal ones."""
    cost = np.zeros((len(its_group), steps))
    cost[entries.row, entries.step] = entries.cost
    groups = group(its_group)
    total = np.zeros((len(groups), steps))
    np.add.at(total, groups.of, cost)
    beyond: Float64 = cost - (total[groups.of] - cost) / np.maximum(size - 1, 1)[:, None]
    return beyond


def _costs_again(beyond: Float64, its_group: Int64, size: Int64) -> Bool:
    """Whether each worker in a group costs more than the others in each step, by more than chance and its like explain."""
    if not beyond.shape[1]:  # no step is chosen: nobody costs anything
        return np.zeros(len(size), np.bool_)
    mean: Float64 = beyond.mean(axis=1)
    found: Bool = ~is_scatter(beyond) & (mean > _ALONE * _among_siblings(np.abs(mean), its_group, size))
    return found


def _among_siblings(mean: Float64, its_group: Int64, size: Int64) -> Float64:
    """What a worker in groups of the same size usually costs beyond, or less than, the others there; 0 of a group alone."""
    usual = np.zeros(len(size))
    for count in np.unique(size).tolist():
        rows = np.flatnonzero(size == count)
        if len(rows) > count:
            # The lower one: where one of two groups has a straggler half of them differ much.
            usual[rows] = _lower_median(mean[rows])
    return usual


def _by_step(row: Int64, step: Int64, value: Int64, chosen: Bool, shape: tuple[int, int]) -> tuple[Float64, Bool]:
    """Mean of a value in each row and step, times the most values that any row has there, and whether there is one."""
    chosen = chosen & (step < shape[1])
    at = row[chosen] * shape[1] + step[chosen]
    count = np.bincount(at, minlength=shape[0] * shape[1]).reshape(shape)
    total = np.bincount(at, weights=value[chosen], minlength=shape[0] * shape[1]).reshape(shape)
    return total / np.maximum(count, 1) * count.max(initial=1), count > 0


def _spread(values: Float64) -> float:
    """The noise of one group: ``values`` [worker, step], NaN where there is none."""
    if len(values) == 2:
        apart = values[0] - values[1]
        apart = apart[~np.isnan(apart)]
        away = np.abs(apart - _lower_median(apart))
    else:
        away = np.abs(values[~np.isnan(values)])
    return _TO_SIGMA * _lower_median(away)


def _lower_median(values: Float64) -> float:
    """The value in the middle, of two the lower: where half of the steps are late, the other half says what is usual."""
    if not len(values):
        return 0.0
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle])


def _slow(entries: _Entries, worker: Int64, noise: Float64, step_ns: Float64, workers: int) -> Bool:
    """The steps in which a worker costs more than its group's noise, and more than what is not worth a word."""
    slow = np.zeros((workers, len(step_ns)), np.bool_)
    enough = np.maximum(np.maximum(WORTH * step_ns[entries.step], 1), noise[entries.row])
    chosen = entries.cost >= enough
    slow[worker[entries.row[chosen]], entries.step[chosen]] = True
    return slow


def _patterns(slow: Bool, again: Bool, lost: Int64, certain: Bool) -> tuple[tuple[str, ...], Int64, Bool]:
    """When each worker is late, at every so many steps, and which these are; nothing where that may be chance.

    ``slow`` are steps beyond noise, ``again`` those that count of workers of which it is ``certain`` that it is no chance.
    """
    workers, steps = slow.shape
    names, every = [""] * workers, np.zeros(workers, np.int64)
    again = again & certain[:, None]
    persistent = again.sum(axis=1) > MOST * steps
    slow = np.where(persistent[:, None], again, slow)
    if not persistent.any() and rotates(slow):
        return tuple(ROTATING if row.any() else "" for row in slow), every, slow
    times = slow.sum(axis=1)
    mostly = ~is_chance(times, np.full(workers, times.sum()), np.full(workers, workers))
    for one in np.flatnonzero(slow.any(axis=1)).tolist():
        # What it costs in its own late steps is not what comes up now and then.
        usual = np.sort(lost[~persistent][~(slow & (np.arange(workers) == one)[:, None])[~persistent]])
        limit = _ALONE * int(usual[-1 - _NOW_AND_THEN]) if len(usual) >= _ENOUGH else np.iinfo(np.int64).max
        name, every[one] = pattern(slow[one])
        alone = persistent[one] if steps == 1 else lost[one].max() > limit
        # A few steps of noise lie at equal distances now and then.
        often = alone or (bool(mostly[one]) and int(times[one]) > FEWEST)
        kept = {PERSISTENT: persistent[one], IRREGULAR: mostly[one], SINGLE: alone, PERIODIC: often}.get(name, True)
        names[one] = name if kept else ""
        # Too few to be in any order, but each of them costs what one alone has to.
        if not name and times[one] > 1 and lost[one][slow[one]].min() > limit:
            names[one] = IRREGULAR
    return tuple(names), every, slow


def _far_beyond(names: tuple[str, ...], slow: Bool, lost: Int64) -> tuple[str, ...]:
    """The patterns of workers that cost in each of their late steps several times as much as any other costs in any step.

    Where the tail of noise is long some steps have a delay that is far beyond the usual: of few steps that looks like one
    that is late once, or in most of them. How far such tails go is told by what the others cost.
    """
    named = np.array([bool(name) for name in names], np.bool_)
    most = int(lost[~named].max(initial=0))
    least = np.where(slow, lost, np.iinfo(np.int64).max).min(axis=1)
    return tuple(name if least[one] > _ALONE * most else "" for one, name in enumerate(names))
