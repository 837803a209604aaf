"""How wrong the drifts of clocks may be: what noise of the ends alone would make of them, tried many times.

Ends of one group of ranks tell the drifts of its members against each other and nothing else. So a worker is tied to others
of its own groups by many ends, and perhaps to all others by few: how well its drift is known follows from the whole net.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import MAD_TO_DEVIATION, group_sorted, quantile_by
from tb_plugin.views.distributed.clocks.anchor_calls import Anchors
from tb_plugin.views.distributed.clocks.fit import LARGEST_DRIFT

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

FEWEST_TRIES, MOST_TRIES = 100, 4_000
"""Errors are known to 1 in sqrt(2 x tries) of themselves: to a fourteenth at least, of small jobs to a ninetieth."""
DRAWN = 1 << 19
"""Numbers that are drawn for all tries together, as far as tries are not too few or too many."""
MOST_GROUPS = 1_024
"""Groups that are looked at, those with most ends: what the others tell is not counted, which makes errors larger."""
SURE_ERRORS = 3
"""A drift is told from none where it is more than so many of its standard errors."""
_CERTAIN = np.sqrt(0.95)
"""The fit uses 95 % of what normal ends tell (``fit.py``)."""
_MOST_TOLD = 1e12
"""More would be lost among the digits of a number: no group's error is below a ten-billionth."""


def scatter_of(a: Anchors, off: Float64, parameters: int) -> Float64:
    """Returns how far ends scatter (standard deviation, of which few far ones are no part) in the group of each anchor.

    ``off`` is how far each lies from the mean of its collective, which it draws nearer, as do the ``parameters`` that were
    fitted. A few ends may lie close together by chance: no group scatters less than all do.
    """
    if not len(off):
        return off
    members = np.bincount(a.match)[a.match]
    free = max(len(off) - a.matches - parameters, 1) / (len(off) - a.matches)
    alone = np.abs(off) / np.sqrt((1 - 1 / members) * free)
    group = group_sorted(a.group).of
    usual = quantile_by(group, np.rint(alone).astype(np.int64), int(group.max()) + 1, 50)
    of_group = _scatter(alone, group, usual.astype(np.float64))
    of_all = _scatter(alone, np.zeros_like(group), np.median(alone, keepdims=True))
    found: Float64 = np.maximum(of_group, of_all)[group]
    return found


def _scatter(alone: Float64, key: Int64, median: Float64) -> Float64:
    """The standard deviation of distances with each key; those beyond three of them (by the median) count three."""
    near = np.minimum(alone, (3 * MAD_TO_DEVIATION * np.maximum(median, 1.0))[key])
    found: Float64 = np.maximum(np.sqrt(np.bincount(key, near * near) / np.bincount(key)), 1.0)
    return found


def drift_errors(a: Anchors, scatter_ns: Float64, where: Int64, found: Float64) -> Float64:
    """Returns one standard error of the drift of each worker against the median of those it is connected with.

    It is endless where less than half of them tell it. ``where`` numbers the connected ones (-1 = nobody), ``found`` are
    their drifts. In each try all ends of a group tell their drifts with an error of their own, as large as they scatter over
    the time that they last, and all drifts are fitted; without any, a clock drifts by ``LARGEST_DRIFT`` either way. Unknowns
    are one drift a worker and one a group: workers are eliminated, and what is left is solved at once for all tries.
    """
    workers = len(where)
    worker, group, told = _told(a, scatter_ns)
    tries = min(max(DRAWN // (workers + len(told)), FEWEST_TRIES), MOST_TRIES) if workers else 0
    random = np.random.default_rng(0)
    noise = np.sqrt(told)[:, None] * random.standard_normal((len(told), tries))
    at_worker = random.standard_normal((workers, tries)) + _sums(worker, noise, workers)
    of_worker = 1 + np.bincount(worker, told, workers)
    if len(told):
        ties = np.zeros((workers, int(group.max()) + 1))
        ties[worker, group] = told
        share = ties / of_worker[:, None]
        left = np.diag(ties.sum(axis=0)) - ties.T @ share
        at_worker += ties @ np.linalg.solve(left, share.T @ at_worker - _sums(group, noise, ties.shape[1]))
    drift = at_worker / of_worker[:, None]
    error = np.full(workers, np.inf)
    for number in range(int(where.max(initial=-1)) + 1):
        mine = np.flatnonzero(where == number)
        error[mine] = LARGEST_DRIFT * _against_median(found[mine] / LARGEST_DRIFT, drift[mine])
    return error


def _against_median(found: Float64, noise: Float64) -> Float64:
    """The error of each worker against the median of those that are tied closely, if these are more than half of all.

    Noise moves the median, too: more where others lie far off, and one or two in the middle are all of it.
    """
    middle = np.median(noise.T.copy(), axis=1)
    centre = int(np.argmin(np.mean(np.abs(noise - middle), axis=1)))
    # Two errors apart, one of each.
    tied = np.mean((noise - noise[centre]) ** 2, axis=1) < 2 / SURE_ERRORS**2
    if 2 * tied.sum() <= len(tied):
        return np.full(len(tied), np.inf)
    moved = np.median((found[tied, None] + noise[tied]).T.copy(), axis=1) - np.median(found[tied])
    error: Float64 = np.sqrt(np.mean((noise - moved) ** 2, axis=1))
    return error


def _told(a: Anchors, scatter_ns: Float64) -> tuple[Int64, Int64, Float64]:
    """For each worker and group: how much the ends there tell of the drift, in units of what is known without any."""
    rows, group = np.arange(len(a.group)), group_sorted(a.group).of
    ends = np.bincount(group)
    if len(ends) > MOST_GROUPS:
        kept = np.sort(np.argsort(-ends, kind="stable")[:MOST_GROUPS])
        rows = np.flatnonzero(np.isin(group, kept))
        group = np.searchsorted(kept, group[rows])
    groups = min(len(ends), MOST_GROUPS)
    key, end = a.worker[rows] * groups + group, a.end_ns[rows]
    mean = np.bincount(key, end) / np.maximum(np.bincount(key), 1)
    told = np.bincount(key, ((end - mean[key]) * (_CERTAIN * LARGEST_DRIFT) / scatter_ns[rows]) ** 2)
    pairs = np.flatnonzero(told)
    worker, group = np.divmod(pairs, max(groups, 1))
    return worker, group_sorted(group).of, np.minimum(told[pairs], _MOST_TOLD)


def _sums(key: Int64, values: Float64, count: int) -> Float64:
    """The sums of the rows with each key."""
    found = np.zeros((count, values.shape[1]))
    order = np.argsort(key, kind="stable")
    begin = np.flatnonzero(np.diff(key[order], prepend=-1))
    if len(begin):
        found[key[order][begin]] = np.add.reduceat(values[order], begin, axis=0)
    return found
