"""Standard errors of clock drifts, by Monte Carlo simulation.

The anchors of a group only compare the drifts of its members with each other. So the error of a worker depends on
how groups overlap, not only on its number of anchors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import MAD_TO_DEVIATION, group_sorted, quantile_by
from tb_plugin.views.distributed.clocks.anchor_calls import Anchors
from tb_plugin.views.distributed.clocks.fit import LARGEST_DRIFT

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

# number of simulations; the relative error of a standard error is 1 / sqrt(2 x tries)
MIN_TRIES, MAX_TRIES = 100, 4_000
# target for the total of random numbers
MAX_RANDOM_NUMBERS = 1 << 19
# maximum number of groups, those with most anchors; ignoring the others only overestimates errors
MAX_GROUPS = 1_024
# a drift counts as non-zero above this many standard errors
SURE_ERRORS = 3
# the fit has 95 % efficiency for normal noise (fit.py)
_FIT_EFFICIENCY = np.sqrt(0.95)
# limit for numerical stability
_MAX_INFORMATION = 1e12


def scatter_of(a: Anchors, off: Float64, parameters: int) -> Float64:
    """Returns, for each anchor, the robust standard deviation (ns) of the anchors in its group.

    ``off`` is the distance (ns) of each anchor from the mean of its collective. The result is corrected for the
    degrees of freedom that the means and the ``parameters`` of the fit use. It is never below the deviation of all
    anchors together, because a few anchors may agree by chance.
    """
    if not len(off):
        return off
    members = np.bincount(a.match)[a.match]
    free = max(len(off) - a.matches - parameters, 1) / (len(off) - a.matches)
    distance = np.abs(off) / np.sqrt((1 - 1 / members) * free)
    group = group_sorted(a.group).of
    usual = quantile_by(group, np.rint(distance).astype(np.int64), int(group.max()) + 1, 50)
    of_group = _scatter(distance, group, usual.astype(np.float64))
    of_all = _scatter(distance, np.zeros_like(group), np.median(distance, keepdims=True))
    found: Float64 = np.maximum(of_group, of_all)[group]
    return found


def _scatter(distance: Float64, key: Int64, median: Float64) -> Float64:
    """Standard deviation per key. Distances above three robust standard deviations are clipped."""
    near = np.minimum(distance, (3 * MAD_TO_DEVIATION * np.maximum(median, 1.0))[key])
    found: Float64 = np.maximum(np.sqrt(np.bincount(key, near * near) / np.bincount(key)), 1.0)
    return found


def drift_errors(a: Anchors, scatter_ns: Float64, where: Int64, found: Float64) -> Float64:
    """Returns the standard error of each worker's drift relative to the median drift of its connected set.

    ``where`` is the connected set of each worker (-1 = none), and ``found`` is the worker's drift. Each simulation
    draws random anchor errors and fits all drifts again. The prior standard deviation of a drift is
    ``LARGEST_DRIFT``. The error is infinite unless most drifts in the set are precisely known relative to each
    other.
    """
    workers = len(where)
    worker, group, information = _information(a, scatter_ns)
    tries = min(max(MAX_RANDOM_NUMBERS // (workers + len(information)), MIN_TRIES), MAX_TRIES) if workers else 0
    random = np.random.default_rng(0)
    noise = np.sqrt(information)[:, None] * random.standard_normal((len(information), tries))
    at_worker = random.standard_normal((workers, tries)) + _sums(worker, noise, workers)
    per_worker = 1 + np.bincount(worker, information, workers)
    if len(information):
        pairs = np.zeros((workers, int(group.max()) + 1))
        pairs[worker, group] = information
        share = pairs / per_worker[:, None]
        left = np.diag(pairs.sum(axis=0)) - pairs.T @ share
        at_worker += pairs @ np.linalg.solve(left, share.T @ at_worker - _sums(group, noise, pairs.shape[1]))
    drift = at_worker / per_worker[:, None]
    error = np.full(workers, np.inf)
    for number in range(int(where.max(initial=-1)) + 1):
        mine = np.flatnonzero(where == number)
        error[mine] = LARGEST_DRIFT * _against_median(found[mine] / LARGEST_DRIFT, drift[mine])
    return error


def _against_median(found: Float64, noise: Float64) -> Float64:
    """Standard error of each worker relative to the median of closely connected workers.

    Infinite if fewer than half of the workers are closely connected. Noise also moves the median, most of all if it
    depends on only one or two workers.
    """
    middle = np.median(noise.T.copy(), axis=1)
    centre = int(np.argmin(np.mean(np.abs(noise - middle), axis=1)))
    # The variance of a difference is twice that of one error.
    is_close = np.mean((noise - noise[centre]) ** 2, axis=1) < 2 / SURE_ERRORS**2
    if 2 * is_close.sum() <= len(is_close):
        return np.full(len(is_close), np.inf)
    moved = np.median((found[is_close, None] + noise[is_close]).T.copy(), axis=1) - np.median(found[is_close])
    error: Float64 = np.sqrt(np.mean((noise - moved) ** 2, axis=1))
    return error


def _information(a: Anchors, scatter_ns: Float64) -> tuple[Int64, Int64, Float64]:
    """Fisher information about the drift, for each pair of worker and group, in units of the prior."""
    rows, group = np.arange(len(a.group)), group_sorted(a.group).of
    ends = np.bincount(group)
    if len(ends) > MAX_GROUPS:
        largest = np.sort(np.argsort(-ends, kind="stable")[:MAX_GROUPS])
        rows = np.flatnonzero(np.isin(group, largest))
        group = np.searchsorted(largest, group[rows])
    groups = min(len(ends), MAX_GROUPS)
    key, end = a.worker[rows] * groups + group, a.end_ns[rows]
    mean = np.bincount(key, end) / np.maximum(np.bincount(key), 1)
    information = np.bincount(key, ((end - mean[key]) * (_FIT_EFFICIENCY * LARGEST_DRIFT) / scatter_ns[rows]) ** 2)
    pairs = np.flatnonzero(information)
    worker, group = np.divmod(pairs, max(groups, 1))
    return worker, group_sorted(group).of, np.minimum(information[pairs], _MAX_INFORMATION)


def _sums(key: Int64, values: Float64, count: int) -> Float64:
    found = np.zeros((count, values.shape[1]))
    order = np.argsort(key, kind="stable")
    begin = np.flatnonzero(np.diff(key[order], prepend=-1))
    if len(begin):
        found[key[order][begin]] = np.add.reduceat(values[order], begin, axis=0)
    return found
