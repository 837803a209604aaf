"""Detection of stragglers, their cost per step, and their late steps."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.job_tables.outliers import CRITICAL_Q
from tb_plugin.lib.groupby import Groups, codes, group, sum_by
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals
from tb_plugin.views.distributed.stragglers.cost_lower_bound import saving_lower_bound
from tb_plugin.views.distributed.stragglers.patterns import (
    FEWEST,
    IRREGULAR,
    MOST,
    PERIODIC,
    PERSISTENT,
    ROTATING,
    SINGLE,
    is_chance,
    is_rotating,
    is_scatter,
    late_pattern,
)

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

# minimum cost as a share of the step; less is noise
WORTH = 0.01
# groups of 3 up to this size use Dixon's Q to find outliers, larger ones the robust z-score
MAX_DIXON_SIZE = 5
MIN_OUTLIER_Z = 3.5
# factor from median absolute deviation to standard deviation, for normally distributed values
_MAD_TO_SIGMA = 1.4826
# minimum cost of a late step, in standard deviations of the others' lateness
_MIN_LATE_SIGMAS = 8
# the same for a repeatedly late rank
_MIN_REPEATED_SIGMAS = 2
# minimum cost of a single late step, relative to occasional delays of other workers
_MIN_COST_FACTOR = 5
# number of largest occasional delays to skip, because several ranks may be late once
_SKIPPED_DELAYS = 3
# with fewer steps, noise is unknown: a straggler must clearly exceed all other costs
_FEW_STEPS = 5
# number of workers whose lower bound is computed, costliest first
_MAX_RANKS_WITH_LOWER_BOUND = 10
# minimum number of (worker, step) pairs to know occasional delays
_MIN_OTHER_COSTS = 20


class Stragglers(msgspec.Struct, frozen=True, eq=False):
    """Lateness and cost: one row per pair of worker and group.

    Columns with another shape, such as one value per worker, describe their shape.
    """

    worker: Int64
    group: Int64
    size: Int64
    """Number of workers of the group that are loaded."""
    collectives: Int64
    """Number of collectives of the group that the worker calls."""
    last: Int64
    """Number of collectives of the group at which the worker arrives last."""
    late_ns: Float64
    """Median lateness of the worker in the group."""
    late_p95_ns: Float64
    z: Float64
    """Robust z-score of the median lateness within the group; NaN in small groups."""
    q: Float64
    """Dixon's Q of the median lateness, for the latest worker of a small group; NaN for all others."""
    outlying: Bool
    """Marks outliers.

    A worker is an outlier if z or Q is too large, if it is last more often than by chance, or if noise does not
    explain its cost per step.
    """
    cost_ns: Int64
    """Cost, summed over the collectives of the group."""
    low_ns: Int64
    lost_ns: Int64
    """Time saved if the worker were as fast as the next slowest one, with shape (workers, steps).

    This is the maximum over the worker's groups, because each group measures the same delays.
    """
    lost_low_ns: Int64
    """Lower bound of ``lost_ns``, with shape (workers, steps)."""
    slow: Bool
    """Whether the cost exceeds noise, with shape (workers, steps)."""
    pattern: tuple[str, ...]
    """Pattern of late steps of each worker; empty if it is not a straggler."""
    every: Int64
    """Number of steps from one late step to the next, if lateness is periodic; else 0. One value per worker."""

    @property
    def significant(self) -> Int64:
        """Returns the workers that are stragglers, costliest first."""
        found = np.array([bool(name) for name in self.pattern], np.bool_)
        cost = self.lost_ns.sum(axis=1)
        order = np.lexsort((np.arange(len(cost)), -cost))
        return order[found[order]]

    def main_group(self, worker: int) -> int:
        """Returns the row of the group in which a worker costs most."""
        rows = np.flatnonzero(self.worker == worker)
        return int(rows[np.argmax(self.cost_ns[rows])])


def stragglers(arrived: Arrivals, workers: int, step_ns: Float64) -> Stragglers:
    """Detects stragglers.

    ``step_ns`` has the length of each selected step. Calls with a larger step index are outside the steps.
    """
    of = codes(arrived.worker, arrived.group[arrived.collective])
    mine = group(of)
    first = mine.first
    worker, its_group = arrived.worker[first], arrived.group[arrived.collective][first]
    size = _sizes(its_group)
    last_of = mine.of[arrived.last]
    in_steps = arrived.step < len(step_ns)
    high = sum_by(last_of, np.where(in_steps, arrived.high_ns, 0), len(mine))
    low = np.where(arrived.sure & in_steps, arrived.low_ns, 0)
    median, p95 = mine.percentiles(arrived.late_ns, 0.5, 0.95)
    times = np.bincount(last_of[arrived.raw_ns > 0], minlength=len(mine)).astype(np.int64)
    trials = np.bincount(mine.of[arrived.is_reliable[arrived.collective]], minlength=len(mine)).astype(np.int64)
    z, q, out = _outlier_statistics(its_group, median, size)
    shape = (workers, len(step_ns))
    entries = _Entries.of(arrived, mine, last_of, low, shape)
    lost, lost_low = _lost(arrived, entries, worker, shape)
    noise, top = _noise(arrived, mine, its_group, size, shape)
    often = ~is_chance(times, trials, size) | ~is_chance(top.sum(axis=1), top.shape[1] * np.ones(len(mine)), size)
    often |= _costs_repeatedly(_beyond_others(entries, its_group, size, shape[1]), its_group, size)
    slow, often_slow = (
        _late_steps(entries, worker, noise * sigmas, step_ns, workers)
        for sigmas in (_MIN_LATE_SIGMAS, _MIN_REPEATED_SIGMAS)
    )
    most = np.bincount(lost.argmax(axis=0)[lost.any(axis=0)], minlength=workers)
    certain = ~is_chance(most, np.full(workers, shape[1]), np.full(workers, workers))
    smallest = np.full(workers, workers)
    np.minimum.at(smallest, worker, np.maximum(size, 1))
    certain |= ~is_chance(sum_by(worker, times, workers), sum_by(worker, trials, workers), smallest)
    certain[worker[out | often]] = True
    names, every, slow = _patterns(slow, often_slow, lost, certain)
    if 0 < shape[1] < _FEW_STEPS:
        names = _without_noise_tails(names, slow, lost)
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
    groups = group(its_group)
    return groups.count()[groups.of]


def _outlier_statistics(its_group: Int64, median: Float64, size: Int64) -> tuple[Float64, Float64, Bool]:
    """Returns the robust z-score and Dixon's Q of each worker, and whether the worker is an outlier in its group."""
    groups = group(its_group)
    center = _medians(groups, median)
    distance = median - center[groups.of]
    spread = _medians(groups, np.abs(distance))[groups.of]
    many, few = size > MAX_DIXON_SIZE, (size >= 3) & (size <= MAX_DIXON_SIZE)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(many & (spread > 0), distance / (_MAD_TO_SIGMA * spread), np.nan)
    order = np.lexsort((median, groups.of))
    end = np.cumsum(groups.count()) - 1
    top = order[end]
    q = np.full(len(median), np.nan)
    is_few = few[top]
    top, end = top[is_few], end[is_few]
    ordered = median[order]
    whole = ordered[end] - ordered[end - size[top] + 1]
    q[top] = np.divide(ordered[end] - ordered[end - 1], whole, out=np.zeros(len(top)), where=whole > 0)
    limit = np.array([np.inf] * 3 + [CRITICAL_Q[n] / 1000 for n in range(3, MAX_DIXON_SIZE + 1)])
    out = (z > MIN_OUTLIER_Z) | (q > limit[np.minimum(size, MAX_DIXON_SIZE)]) | (many & (spread == 0) & (distance > 0))
    return z, q, out


def _medians(groups: Groups, values: Float64) -> Float64:
    order = np.lexsort((values, groups.of))
    count = groups.count()
    start = np.cumsum(count) - count
    ordered = values[order]
    middle: Float64 = (ordered[start + (count - 1) // 2] + ordered[start + count // 2]) / 2
    return middle


class _Entries(msgspec.Struct, frozen=True, eq=False):
    """Costs above 0 by worker, group and step."""

    row: Int64
    step: Int64
    cost: Int64
    low: Int64

    @classmethod
    def of(cls, arrived: Arrivals, mine: Groups, last_of: Int64, low: Int64, shape: tuple[int, int]) -> _Entries:
        chosen = np.flatnonzero((arrived.step < shape[1]) & (arrived.high_ns > 0))
        key = last_of[chosen] * shape[1] + arrived.step[chosen]
        found, place = np.unique(key, return_inverse=True)
        row, step = np.divmod(found, max(shape[1], 1))
        cost = sum_by(place.astype(np.int64), arrived.high_ns[chosen], len(found))
        return cls(row, step, cost, sum_by(place.astype(np.int64), low[chosen], len(found)))


def _lost(arrived: Arrivals, entries: _Entries, worker: Int64, shape: tuple[int, int]) -> tuple[Int64, Int64]:
    """Returns the cost and a lower bound of the cost in ns, with shape (workers, steps).

    The lower bound is only computed for the costliest workers. For all other workers, the lower bound is 0.
    """
    lost, low = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    np.maximum.at(lost, (worker[entries.row], entries.step), entries.cost)
    total = lost.sum(axis=1)
    costliest = np.lexsort((np.arange(shape[0]), -total))[:_MAX_RANKS_WITH_LOWER_BOUND]
    low[costliest] = np.minimum(saving_lower_bound(arrived, costliest, *shape), lost[costliest])
    return lost, low


def _noise(
    arrived: Arrivals, mine: Groups, its_group: Int64, size: Int64, shape: tuple[int, int]
) -> tuple[Float64, Bool]:
    """Returns the noise of each row: the standard deviation per step of the lateness of workers that are not late.

    The noise excludes the last rank of each collective and the latest worker of each step. In groups of two, noise
    is the variation of the difference between the two workers. The second result marks the latest worker of each
    step, with shape (rows, steps).
    """
    step = arrived.step[arrived.collective]
    late, has_value = _by_step(mine.of, step, arrived.late_ns, np.ones(len(step), np.bool_), (len(mine), shape[1]))
    is_last = np.zeros(len(step), np.bool_)
    is_last[arrived.last] = True
    other_late, has_other = _by_step(mine.of, step, arrived.spread_ns, ~is_last, (len(mine), shape[1]))
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
        values[~has_value[members]] = np.nan
        latest = np.argmax(np.nan_to_num(values, nan=-np.inf), axis=1)
        known = has_value[members].sum(axis=1) > 1
        each, at = np.nonzero(known)
        top[members[each, latest[each, at]], at] = True
        if count > 2:
            values = np.where(has_other[members] & ~top[members], other_late[members], np.nan)
        noise[members] = np.array([_spread(one) for one in values])[:, None]
    return noise, top


def _beyond_others(entries: _Entries, its_group: Int64, size: Int64, steps: int) -> Float64:
    """Returns the cost per step minus the mean cost of all other workers in the group, in ns, with shape (rows,
    steps).
    """
    cost = np.zeros((len(its_group), steps))
    cost[entries.row, entries.step] = entries.cost
    groups = group(its_group)
    total = np.zeros((len(groups), steps))
    np.add.at(total, groups.of, cost)
    beyond: Float64 = cost - (total[groups.of] - cost) / np.maximum(size - 1, 1)[:, None]
    return beyond


def _costs_repeatedly(beyond: Float64, its_group: Int64, size: Int64) -> Bool:
    """Returns whether each worker costs more per step than the other workers of its group.

    The difference must exceed chance, and must exceed the typical difference in groups of equal size.
    """
    if not beyond.shape[1]:  # no step is selected, so there is no cost
        return np.zeros(len(size), np.bool_)
    mean: Float64 = beyond.mean(axis=1)
    found: Bool = ~is_scatter(beyond) & (
        mean > _MIN_COST_FACTOR * _usual_in_similar_groups(np.abs(mean), its_group, size)
    )
    return found


def _usual_in_similar_groups(mean: Float64, its_group: Int64, size: Int64) -> Float64:
    """Returns the typical difference between a worker and the other workers of its group, among groups of equal
    size.

    The difference is 0 if only one group has this size.
    """
    usual = np.zeros(len(size))
    for count in np.unique(size).tolist():
        rows = np.flatnonzero(size == count)
        if len(rows) > count:
            # The lower median: if one of two groups has a straggler, half of the differences are large.
            usual[rows] = _lower_median(mean[rows])
    return usual


def _by_step(row: Int64, step: Int64, value: Int64, chosen: Bool, shape: tuple[int, int]) -> tuple[Float64, Bool]:
    """Returns the mean value by row and step, and whether there is any value.

    The mean is multiplied by the largest number of values in any row and step.
    """
    chosen = chosen & (step < shape[1])
    at = row[chosen] * shape[1] + step[chosen]
    count = np.bincount(at, minlength=shape[0] * shape[1]).reshape(shape)
    total = np.bincount(at, weights=value[chosen], minlength=shape[0] * shape[1]).reshape(shape)
    return total / np.maximum(count, 1) * count.max(initial=1), count > 0


def _spread(values: Float64) -> float:
    """Returns the noise of one group, from values with shape (workers, steps). NaN means missing."""
    if len(values) == 2:
        difference = values[0] - values[1]
        difference = difference[~np.isnan(difference)]
        deviations = np.abs(difference - _lower_median(difference))
    else:
        deviations = np.abs(values[~np.isnan(values)])
    return _MAD_TO_SIGMA * _lower_median(deviations)


def _lower_median(values: Float64) -> float:
    """Returns the median, or the smaller of two middle values. So half of the steps may be late without effect."""
    if not len(values):
        return 0.0
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle])


def _late_steps(entries: _Entries, worker: Int64, noise: Float64, step_ns: Float64, workers: int) -> Bool:
    """Returns whether the cost exceeds both the noise of the group and ``WORTH``, with shape (workers, steps)."""
    slow = np.zeros((workers, len(step_ns)), np.bool_)
    enough = np.maximum(np.maximum(WORTH * step_ns[entries.step], 1), noise[entries.row])
    chosen = entries.cost >= enough
    slow[worker[entries.row[chosen]], entries.step[chosen]] = True
    return slow


def _patterns(slow: Bool, again: Bool, lost: Int64, certain: Bool) -> tuple[tuple[str, ...], Int64, Bool]:
    """Returns pattern, period and late steps of each worker. Lateness that chance may explain has no pattern.

    ``slow`` marks steps with a cost above noise. ``again`` uses a lower limit, and applies to workers that are
    ``certain`` to be late by more than chance.
    """
    workers, steps = slow.shape
    names, every = [""] * workers, np.zeros(workers, np.int64)
    again = again & certain[:, None]
    persistent = again.sum(axis=1) > MOST * steps
    slow = np.where(persistent[:, None], again, slow)
    if not persistent.any() and is_rotating(slow):
        return tuple(ROTATING if row.any() else "" for row in slow), every, slow
    times = slow.sum(axis=1)
    mostly = ~is_chance(times, np.full(workers, times.sum()), np.full(workers, workers))
    for one in np.flatnonzero(slow.any(axis=1)).tolist():
        # Exclude the worker's own late steps from the usual costs.
        usual = np.sort(lost[~persistent][~(slow & (np.arange(workers) == one)[:, None])[~persistent]])
        limit = (
            _MIN_COST_FACTOR * int(usual[-1 - _SKIPPED_DELAYS])
            if len(usual) >= _MIN_OTHER_COSTS
            else np.iinfo(np.int64).max
        )
        name, every[one] = late_pattern(slow[one])
        is_single_late = persistent[one] if steps == 1 else lost[one].max() > limit
        # A few noisy steps may have equal distances by chance.
        often = is_single_late or (bool(mostly[one]) and int(times[one]) > FEWEST)
        is_significant = {
            PERSISTENT: persistent[one],
            IRREGULAR: mostly[one],
            SINGLE: is_single_late,
            PERIODIC: often,
        }.get(name, True)
        names[one] = name if is_significant else ""
        # Too few late steps for a pattern, but each is as costly as a single late step must be.
        if not name and times[one] > 1 and lost[one][slow[one]].min() > limit:
            names[one] = IRREGULAR
    return tuple(names), every, slow


def _without_noise_tails(names: tuple[str, ...], slow: Bool, lost: Int64) -> tuple[str, ...]:
    """Removes patterns whose late steps are not much costlier than the steps of workers without a pattern.

    With few steps, a worker with large noise may look like a worker that is late once or in most steps.
    """
    named = np.array([bool(name) for name in names], np.bool_)
    most = int(lost[~named].max(initial=0))
    least = np.where(slow, lost, np.iinfo(np.int64).max).min(axis=1)
    return tuple(name if least[one] > _MIN_COST_FACTOR * most else "" for one, name in enumerate(names))
