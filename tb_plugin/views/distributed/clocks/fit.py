"""Robust fit of clock offsets and drifts to the ends of collectives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import MAD_TO_DEVIATION, median_by, quantile_by
from tb_plugin.views.distributed.clocks.anchor_calls import Anchors

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

# upper limit for quartz clocks (100 ppm); a drift is fitted only if its error is small compared with it
LARGEST_DRIFT = 1e-4

_MAX_ROUNDS = 30
_MAX_SOLVER_STEPS = 80
# below this relative curvature a search direction is flat; rounding errors are about 1e-16
_MIN_CURVATURE = 1e-13
# tuning constant of Cauchy weights, for 95 % efficiency with normal noise
_CAUCHY = 2.385


def connected_sets(anchors: Anchors, zero_ns: Int64) -> tuple[Int64, Int64]:
    """Returns the connected set of each worker (0 = largest, -1 = none) and the worker's initial clock offset in
    ns.

    ``zero_ns`` is the clock reading at the start of each worker's trace. The offset between two workers is the
    median over the collectives of both workers. As in a maximum spanning tree, pairs with the most shared
    collectives are used first.
    """
    neighbours = _spanning_tree(anchors, zero_ns)
    number, offset = np.full(len(zero_ns), -1, np.int64), np.zeros(len(zero_ns), np.int64)
    sizes: list[int] = []
    for start in neighbours:
        if number[start] >= 0:
            continue
        number[start], queue, size = len(sizes), [start], 0
        while queue:
            current, size = queue.pop(), size + 1
            for neighbour, lag in neighbours[current]:
                if number[neighbour] < 0:
                    number[neighbour], offset[neighbour] = len(sizes), offset[current] + lag
                    queue.append(neighbour)
        sizes.append(size)
    place = np.full(len(sizes) + 1, -1, np.int64)
    place[np.argsort([-size for size in sizes], kind="stable")] = np.arange(len(sizes))
    return place[number], offset


def _spanning_tree(a: Anchors, zero_ns: Int64) -> Mapping[int, Sequence[tuple[int, int]]]:
    """Returns a maximum spanning tree of the workers: the neighbours of each worker, and the clock offsets to them
    in ns.
    """
    workers = len(zero_ns)
    first = np.full(a.matches, workers, np.int64)
    np.minimum.at(first, a.match, a.worker)
    is_first = a.worker == first[a.match]
    end, end_of_first = zero_ns[a.worker] + a.end_ns, np.zeros(a.matches, np.int64)
    end_of_first[a.match[is_first]] = end[is_first]
    worker, match, end = a.worker[~is_first], a.match[~is_first], end[~is_first]
    pairs, which, shared = np.unique(first[match] * workers + worker, return_inverse=True, return_counts=True)
    lag = quantile_by(which, end_of_first[match] - end, len(pairs), 50)
    tree: dict[int, list[tuple[int, int]]] = defaultdict(list)
    above = list(range(workers))

    def top(worker: int) -> int:
        while above[worker] != worker:
            above[worker] = worker = above[above[worker]]
        return worker

    for at in np.argsort(-shared, kind="stable").tolist():
        one, other = divmod(int(pairs[at]), workers)
        if top(one) != top(other):
            above[top(other)] = top(one)
            tree[one].append((other, int(lag[at])))
            tree[other].append((one, -int(lag[at])))
    return tree


def relative_ends(a: Anchors, zero_ns: Int64) -> Float64:
    """Returns the time from the first end of a collective to the end of each call of the collective, ns.

    Floats represent these small numbers exactly.
    """
    end = zero_ns[a.worker] + a.end_ns
    first = np.full(a.matches, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first, a.match, end)
    return (end - first[a.match]).astype(np.float64)


class Ends(msgspec.Struct, frozen=True, eq=False):
    """Input of the clock fit: one row per call."""

    worker: Int64
    match: Int64
    workers: int
    matches: int
    end_ns: Float64
    """End of the call after the first end of its collective, with initial offsets applied."""
    time: Float64
    """Time of the end, standardized for each worker to mean 0 and variance 1."""

    def by_worker(self, values: Float64) -> Float64:
        found: Float64 = np.bincount(self.worker, values, self.workers).astype(np.float64, copy=False)
        return found

    def by_match(self, values: Float64) -> Float64:
        found: Float64 = np.bincount(self.match, values, self.matches).astype(np.float64, copy=False)
        return found


def fit_clocks(ends: Ends, spread_ns: Float64) -> tuple[Float64, Float64, Float64]:
    """Returns the offset and the slope of each worker's clock, and the residual of each end.

    The fit uses iteratively reweighted least squares with Cauchy weights. ``spread_ns`` is the standard deviation
    of each worker's times, and slopes are per standard deviation. A prior pulls drifts towards 0.
    """
    shift, slope, now = np.zeros(ends.workers), np.zeros(ends.workers), ends.end_ns
    common = median_by(ends.match, np.rint(ends.end_ns).astype(np.int64), ends.matches).astype(np.float64)
    for _ in range(_MAX_ROUNDS if len(ends.worker) else 0):
        now = ends.end_ns + shift[ends.worker] + slope[ends.worker] * ends.time
        off = now - common[ends.match]
        scale = max(MAD_TO_DEVIATION * float(np.median(np.abs(off))), 1.0)
        weight = 1 / (1 + (off / (_CAUCHY * scale)) ** 2)
        drawn = (scale / (spread_ns * LARGEST_DRIFT)) ** 2
        step = _step(ends, weight, drawn, now, slope)
        shift, slope = shift + step[: ends.workers], slope + step[ends.workers :]
        now = ends.end_ns + shift[ends.worker] + slope[ends.worker] * ends.time
        common = ends.by_match(weight * now) / ends.by_match(weight)
        if np.abs(step).max() < max(0.01 * scale, 1.0):
            break
    return shift, slope, now - common[ends.match]


def _step(ends: Ends, weight: Float64, drawn: Float64, now: Float64, slope: Float64) -> Float64:
    """Updates offsets and slopes by conjugate gradients, which need no dense matrix of workers.

    The common end of each collective, the weighted mean of its calls' ends, is eliminated.
    """
    of_match = ends.by_match(weight)

    def moved(values: Float64, slopes: Float64) -> Float64:
        off = weight * (values - (ends.by_match(weight * values) / of_match)[ends.match])
        return np.concatenate((ends.by_worker(off), ends.by_worker(off * ends.time) + drawn * slopes))

    diagonal = (ends.by_worker(weight), ends.by_worker(weight * ends.time * ends.time) + drawn)
    steepest = np.maximum(np.concatenate(diagonal), 1e-9)
    easing = 1 / steepest
    step, rest = np.zeros(2 * ends.workers), -moved(now, slope)
    way = easing * rest
    size = float(rest @ way)
    enough = 1e-8 * size
    for _ in range(_MAX_SOLVER_STEPS):
        if size <= enough:
            break
        shifts, slopes = way[: ends.workers], way[ends.workers :]
        image = moved(shifts[ends.worker] + slopes[ends.worker] * ends.time, slopes)
        curved = float(way @ image)
        # All clocks of a connected set may shift together, so the remaining curvature is rounding.
        if curved <= _MIN_CURVATURE * float(way @ (steepest * way)):
            break
        length = size / curved
        step, rest = step + length * way, rest - length * image
        eased = easing * rest
        size, before = float(rest @ eased), size
        way = eased + size / before * way
    return step
