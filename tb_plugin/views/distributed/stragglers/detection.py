"""Detection of stragglers, their late steps, and the pattern of these steps.

1. All ranks leave a collective together, so the rank with the shortest call arrived last (``arrivals.py``). Only
   collectives that all loaded ranks of the group have count. Messages and collectives with a root do not count.
2. A collective costs: the time for which it blocks the rank before the last, minus the time for which it blocks the
   last rank. A call blocks its rank while neither compute nor a later call runs. If the last rank waited longer in
   other groups than the rank before, the difference is subtracted: other ranks caused it.
3. The cost of each rank is summed by group and step. A straggler costs at least 1 % of the step time, and a t-test
   over the steps finds that it costs more than the other ranks of its group (``outlying_ranks.py``). The noise of this
   test is the robust deviation of the lateness of ranks that do not arrive last. If ranks take turns being late, all surely
   late ranks are named instead, even without a significant t-test (``is_rotating``).
4. Each of the ten costliest stragglers is made as fast as the next rank. ``replay.py`` computes how much earlier each
   step then ends: this is its cost. If other stragglers hide the gain, the rank costs what it adds to their gain. If
   the cost is less than 1 % of the step time, the rank is no straggler.
5. ``causes.py`` compares the time before the late collectives with the median of the other ranks.
6. Host calls are not replayed: the cost of step 2 is an upper bound. Steps with missing calls are skipped. If most
   steps lack calls, or a rank has no trace, stragglers have no cost (``report.py``).
"""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.outlying_ranks import outlying_ranks
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import MAD_TO_DEVIATION, codes, group, median_by, occurrence, sum_by
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals

# minimum cost as a share of the step; less does not matter
MIN_COST_SHARE = 0.01
# minimum cost of a late step of a straggler, and of any rank, in standard deviations of lateness without stragglers
_MIN_LATE_SIGMAS, _MIN_SURELY_LATE_SIGMAS = 2, 8

PERSISTENT, ROTATING, PERIODIC, SINGLE, IRREGULAR = "persistent", "rotating", "periodic", "single", "irregular"
# With fewer degrees of freedom ((ranks - 2) times steps), noise between steps is unknown. Then the collectives of each
# group are tested in ``_PARTS`` parts of equal size.
_FEW_VALUES, _PARTS = 5, 8
# share of late steps above which a worker is persistently late
MIN_PERSISTENT_SHARE = 0.6
# minimum number of late steps of a repeating pattern
MIN_LATE_STEPS = 3
# minimum share of late steps among those due, for periodic lateness
MIN_DUE_SHARE = 0.75


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
    last_count: Int64
    """Number of collectives of the group at which the worker arrives last."""
    late_ns: Int64
    """Median lateness of the worker in the group."""
    cost_ns: Int64
    """Cost, summed over the collectives of the group."""
    lost_ns: Int64
    """Time saved if the worker were as fast as the next slowest one, with shape (workers, steps).

    This is the maximum over the worker's groups, because each group measures the same delays.
    """
    slow: Bool
    """Whether the worker is late, with shape (workers, steps)."""
    pattern: tuple[str, ...]
    """Pattern of late steps of each worker; empty unless it is a straggler or takes turns being late (``ROTATING``)."""
    every: Int64
    """Number of steps from one late step to the next, if lateness is periodic; else 0. One value per worker."""

    @property
    def significant(self) -> Int64:
        """Returns the workers with a pattern (stragglers, or workers that take turns being late), costliest first."""
        found = np.array([bool(name) for name in self.pattern], np.bool_)
        cost = self.lost_ns.sum(axis=1)
        order = np.lexsort((np.arange(len(cost)), -cost))
        return order[found[order]]

    def main_group(self, worker: int) -> int:
        """Returns the row of the group in which a worker costs most."""
        rows = np.flatnonzero(self.worker == worker)
        return int(rows[np.argmax(self.cost_ns[rows])])


def stragglers(arrived: Arrivals, workers: int, step_ns: Float64) -> Stragglers:
    """Detects stragglers: workers whose cost is at least ``MIN_COST_SHARE`` and not explained by noise.

    The noise is how much the lateness of other ranks varies between steps, or between parts of the recording if it has
    few steps. ``step_ns`` has the length of each analyzed step. Calls with a larger step index are outside the steps.
    """
    mine = group(codes(arrived.worker, arrived.group[arrived.collective]))
    worker, its_group = arrived.worker[mine.first], arrived.group[arrived.collective][mine.first]
    members = group(its_group)
    size = members.count()[members.of]
    last_of, steps = mine.of[arrived.last], len(step_ns)
    cost = _by_step(arrived, last_of, arrived.step, (len(mine), steps))
    noise, outlying = np.zeros(len(mine)), np.zeros(len(mine), np.bool_)
    parts = np.where(arrived.step < steps, _part_of_group(arrived.group), _PARTS)
    shape = (len(mine), _PARTS)
    of_steps = cost, _lateness(arrived, mine.of, arrived.step, (len(mine), steps))
    of_parts = _by_step(arrived, last_of, parts, shape), _lateness(arrived, mine.of, parts, shape)
    for count in np.unique(size[size > 1]).tolist():
        rows = np.flatnonzero(size == count)
        of_groups = rows[np.argsort(members.of[rows], kind="stable")].reshape(-1, count)
        is_few = max(count - 2, 1) * steps < _FEW_VALUES
        for values, lateness in (of_steps, of_parts) if is_few else (of_steps,):
            usual = _noise(lateness[of_groups])
            found = outlying_ranks(values[of_groups].astype(np.float64), usual)
            # Groups with fewer collectives than parts have no noise between parts.
            tested = of_groups[~np.isnan(usual)]
            outlying[tested] = found[~np.isnan(usual)]
            noise[tested] = (usual * np.sqrt(values.shape[1] / max(steps, 1)))[~np.isnan(usual), None]
    outlying &= cost.sum(axis=1) >= max(MIN_COST_SHARE * float(step_ns.sum()), 1)
    lost = np.zeros((workers, steps), np.int64)
    np.maximum.at(lost, worker, cost)
    late, surely = (
        _any_of_worker(
            worker, cost >= np.maximum(np.maximum(MIN_COST_SHARE * step_ns, 1), sigmas * noise[:, None]), workers
        )
        for sigmas in (_MIN_LATE_SIGMAS, _MIN_SURELY_LATE_SIGMAS)
    )
    is_straggler = np.zeros(workers, np.bool_)
    is_straggler[worker[outlying]] = True
    names, every, slow = _patterns(is_straggler, late, surely)
    return Stragglers(
        worker=worker,
        group=its_group,
        size=size,
        collectives=mine.count(),
        last_count=np.bincount(last_of[arrived.raw_ns > 0], minlength=len(mine)).astype(np.int64),
        late_ns=median_by(mine.of, arrived.late_ns, len(mine)),
        cost_ns=cost.sum(axis=1),
        lost_ns=lost,
        slow=slow,
        pattern=names,
        every=every,
    )


def _part_of_group(its_group: Int64) -> Int64:
    """Returns the part of each collective of a group; ``_PARTS`` for groups with fewer collectives than parts."""
    count = np.bincount(its_group)[its_group]
    return np.where(count >= _PARTS, occurrence(its_group) * _PARTS // np.maximum(count, 1), _PARTS)


def _by_step(arrived: Arrivals, last_of: Int64, step: Int64, shape: tuple[int, int]) -> Int64:
    """Returns the cost of each row by step."""
    inside = np.flatnonzero(step < shape[1])
    at = last_of[inside] * shape[1] + step[inside]
    return sum_by(at, arrived.cost_ns[inside], shape[0] * shape[1]).reshape(shape)


def _lateness(arrived: Arrivals, row: Int64, part: Int64, shape: tuple[int, int]) -> Float64:
    """Returns the lateness of workers that do not arrive last, summed over a step, with shape (rows, steps).

    The value is NaN for a worker that always arrives last, but in groups of two it includes all arrivals.
    """
    (rows, steps), step = shape, part[arrived.collective]
    is_used = np.ones(len(row), np.bool_)
    is_used[arrived.last[np.bincount(arrived.collective) > 2]] = False
    calls = np.bincount((row * max(steps, 1) + step)[step < steps], minlength=rows * steps)
    chosen = np.flatnonzero(is_used & (step < steps))
    at = row[chosen] * steps + step[chosen]
    count = np.bincount(at, minlength=rows * steps)
    total = np.bincount(at, weights=arrived.late_ns[chosen], minlength=rows * steps)
    mean: Float64 = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return (mean * calls).reshape(rows, steps)


def _noise(lateness: Float64) -> Float64:
    """Returns the standard deviation of lateness between steps, from values with shape (groups, workers, steps).

    The lower median keeps the result unchanged if less than half of the values belong to late ranks.
    """
    groups, workers, _ = lateness.shape
    if workers == 2:
        difference: Float64 = lateness[:, 0] - lateness[:, 1]
        return MAD_TO_DEVIATION * _lower_median(np.abs(difference - _lower_median(difference)[:, None]))
    # Deviations from a median of few ranks are too small.
    usual: Float64 = _lower_median(np.abs(lateness.reshape(groups, -1))) * (workers - 1) / (workers - 2)
    return MAD_TO_DEVIATION * usual


def _lower_median(values: Float64) -> Float64:
    """Returns the lower median of each row, without NaN; NaN for rows without values."""
    if not values.size:
        return np.full(len(values), np.nan)
    count = np.maximum((~np.isnan(values)).sum(axis=1), 1)
    ordered = np.sort(values, axis=1)  # NaN is last
    found: Float64 = ordered[np.arange(len(values)), (count - 1) // 2]
    return found


def _any_of_worker(worker: Int64, marked: Bool, workers: int) -> Bool:
    found = np.zeros((workers, marked.shape[1]), np.bool_)
    np.logical_or.at(found, worker, marked)
    return found


def _patterns(is_straggler: Bool, late: Bool, surely: Bool) -> tuple[tuple[str, ...], Int64, Bool]:
    """Returns pattern, period and late steps of each worker.

    ``late`` and ``surely`` mark late steps by a low and by a high limit. If workers take turns being late, every surely
    late worker has the pattern ``ROTATING``, even without a significant t-test.
    """
    every = np.zeros(len(late), np.int64)
    is_persistent = is_straggler & (late.sum(axis=1) > MIN_PERSISTENT_SHARE * late.shape[1])
    if not is_persistent.any() and is_rotating(surely):
        return tuple(ROTATING if row.any() else "" for row in surely), every, surely
    names = [""] * len(late)
    for one in np.flatnonzero(is_straggler).tolist():
        names[one], every[one] = late_pattern(late[one])
    return tuple(names), every, np.where(is_straggler[:, None], late, surely)


def late_pattern(slow: Bool) -> tuple[str, int]:
    """Returns the pattern of a straggler's late steps, and its period in steps (0 unless periodic)."""
    count, steps = int(slow.sum()), len(slow)
    if count == 1 or steps == 1:
        return SINGLE, 0
    if count > MIN_PERSISTENT_SHARE * steps:
        return PERSISTENT, 0
    period = late_period(slow)
    return (PERIODIC, period) if period else (IRREGULAR, 0)


def late_period(slow: Bool) -> int:
    """Returns the period of the marked steps, at least 2, or 0 if the marked steps are not periodic.

    A few repetitions may be missing.
    """
    places = np.flatnonzero(slow)
    if len(places) < MIN_LATE_STEPS:
        return 0
    distances = np.diff(places)
    period = int(distances.min())
    if period < 2 or (distances % period).any():
        return 0
    due = (places[-1] - places[0]) // period + 1
    return period if len(places) >= MIN_DUE_SHARE * due else 0


def is_rotating(slow: Bool) -> bool:
    """Returns whether a worker is late in most steps, but no single worker is late in most steps.

    ``slow`` has shape (workers, steps).
    """
    steps = slow.shape[1]
    several = int(slow.any(axis=1).sum()) > 1
    mine = slow.sum(axis=1).max(initial=0)
    return (
        several
        and slow.any(axis=0).sum() > max(MIN_LATE_STEPS, MIN_PERSISTENT_SHARE * steps)
        and bool(mine <= MIN_PERSISTENT_SHARE * steps)
    )
