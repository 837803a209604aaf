"""How wrong the drifts of clocks may be: what noise of the ends alone would make of them, tried many times.

Ends of one group of ranks tell the drifts of its members against each other and nothing else. So a worker is tied to others
of its own groups by many ends, and perhaps to all others by few: how well its drift is known follows from the whole net.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.distributed.clocks.anchors import Anchors
from tb_plugin.analyses.distributed.clocks.fit import LARGEST_DRIFT
from tb_plugin.analyses.distributed.matching.codes import codes, distinct
from tb_plugin.analyses.distributed.matching.quantiles import TO_DEVIATION, quantile_by

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

FEWEST_TRIES, MOST_TRIES = 200, 4_000
"""Errors are known to 1 in sqrt(2 x tries) of themselves: to a twentieth at least, of small jobs to a ninetieth."""
DRAWN = 1 << 19
"""Numbers that are drawn for all tries together, as far as tries are not too few or too many."""
MOST_GROUPS = 1_024
"""Groups that are looked at, those with most members: what the others tell is not counted, which makes errors larger."""
_CERTAIN = np.sqrt(0.95)
"""The fit uses 95 % of what normal ends tell (``fit.py``)."""


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
    group = distinct(a.group)[1]
    found: Float64 = np.maximum(_scatter(alone, group)[group], _scatter(alone, np.zeros_like(group))[0])
    return found


def _scatter(alone: Float64, key: Int64) -> Float64:
    """The standard deviation of distances with each key; what lies more than three of them (by the median) off counts so much."""
    count = int(key.max()) + 1
    usual = np.maximum(TO_DEVIATION * quantile_by(key, np.rint(alone).astype(np.int64), count, 50), 1.0)
    near = np.minimum(alone, 3 * usual[key])
    found: Float64 = np.sqrt(np.bincount(key, near * near) / np.bincount(key))
    return np.maximum(found, 1.0)


def drift_errors(a: Anchors, scatter_ns: Float64, where: Int64) -> Float64:
    """Returns one standard error of the drift of each worker against the median of those it is connected with.

    ``where`` numbers the connected ones (-1 = nobody). In each try all ends of a group tell their drifts with an error of
    their own, as large as they scatter over the time that they last, and all drifts are fitted; without any, a clock drifts
    by ``LARGEST_DRIFT`` either way. Unknowns are one drift a worker and one a group: workers are eliminated, and what is
    left is solved at once for all tries.
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
    error = np.zeros(workers)
    for number in range(int(where.max(initial=-1)) + 1):
        mine = np.flatnonzero(where == number)
        apart = drift[mine] - np.median(drift[mine], axis=0)
        error[mine] = LARGEST_DRIFT * np.sqrt(np.mean(apart * apart, axis=1))
    return error


def _told(a: Anchors, scatter_ns: Float64) -> tuple[Int64, Int64, Float64]:
    """For each worker and group: how much the ends there tell of the drift, in units of what is known without any."""
    group = distinct(a.group)[1]
    members = np.bincount(group)
    if len(members) > MOST_GROUPS:
        few = np.ones(len(members), np.bool_)
        few[np.argsort(-members, kind="stable")[:MOST_GROUPS]] = False
        group = np.where(few, -1, group)
    rows = np.flatnonzero(group >= 0)
    pairs, of = np.unique(codes(a.worker[rows], group[rows]), return_index=True, return_inverse=True)[1:]
    since = a.end_ns[rows] - a.end_ns[rows][pairs][of]
    away = since - (np.bincount(of, since) / np.bincount(of))[of]
    told = np.bincount(of, (away * (_CERTAIN * LARGEST_DRIFT) / scatter_ns[rows]) ** 2)
    kept = rows[pairs][told > 0]
    return a.worker[kept], distinct(group[kept])[1], told[told > 0]


def _sums(key: Int64, values: Float64, count: int) -> Float64:
    """The sums of the rows with each key."""
    found = np.zeros((count, values.shape[1]))
    order = np.argsort(key, kind="stable")
    begin = np.flatnonzero(np.diff(key[order], prepend=-1))
    if len(begin):
        found[key[order][begin]] = np.add.reduceat(values[order], begin, axis=0)
    return found
