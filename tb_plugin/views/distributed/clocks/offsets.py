"""Clock offsets and drifts of workers.

The corrected time of a clock reading ``zero_ns + at`` is the reading plus ``offset_ns + drift * at``. ``at`` is the
time since the start of the trace. A robust fit chooses offsets and drifts so that the calls of each collective end
together. The residuals of the fit are the clock error.
"""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import MAD_TO_DEVIATION, median_by, quantile_by
from tb_plugin.views.distributed.clocks.anchors import Anchors, connected_sets

UNKNOWN, OFFSET, DRIFT = "unknown", "offset", "offset and drift"
# OFFSET: anchors are too few or too close in time to fit a drift, or the drift is not significant
HOW = (UNKNOWN, OFFSET, DRIFT)
# minimum number of anchors per worker; fewer give no error estimate
MIN_ANCHORS = 3
MIN_ANCHORS_FOR_DRIFT = 12
# upper limit for quartz clocks (100 ppm); a drift is fitted only if its error is small compared with it
LARGEST_DRIFT = 1e-4
# a drift counts as non-zero above this many standard errors
SURE_ERRORS = 5

_MAX_ROUNDS, _MAX_SOLVER_STEPS = 30, 80
# below this relative curvature a search direction is flat; rounding errors are about 1e-16
_MIN_CURVATURE = 1e-13
# tuning constant of Cauchy weights, for 95 % efficiency with normal noise
_CAUCHY = 2.385
# robust standard deviations above which an anchor is an outlier
_OUTLIER_DEVIATIONS = 6


class Clocks(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Clocks of all workers: one row per worker. Offset, drift and error of an unknown clock are 0."""

    zero_ns: Int64
    """Clock reading at the start of the trace."""
    offset_ns: Int64
    """Correction at the start of the trace."""
    drift: Float64
    """Correction per nanosecond since the start of the trace."""
    residual_ns: Int64
    """95th percentile of the distance from corrected anchors to the common end of their collective.

    Outliers are excluded.
    """
    anchors: Int64
    aside: Int64
    """Number of anchors that ``residual_ns`` excludes as outliers."""
    how: Int64
    connected: Int64
    """Connected set of each worker; 0 = largest, -1 = unknown.

    The workers of a set share collectives, directly or through other workers.
    """

    @property
    def comparable(self) -> Bool:
        """Returns whether the clock of each worker is known."""
        known: Bool = self.how != HOW.index(UNKNOWN)
        return known

    @cached_property
    def begin_ns(self) -> Int64:
        """Returns the corrected start of each trace, in ns after the earliest corrected start of all known clocks."""
        begin = self.zero_ns + self.offset_ns
        first: Int64 = begin[self.comparable] if self.comparable.any() else begin
        return begin - int(first.min(initial=np.iinfo(np.int64).max)) if len(begin) else begin

    def corrected(self, worker: Int64, at_ns: Int64) -> Int64:
        """Converts times in the traces of ``worker`` to the common time axis of ``begin_ns``."""
        return self.begin_ns[worker] + at_ns + np.rint(self.drift[worker] * at_ns).astype(np.int64)


def clocks_of(anchors: Anchors, zero_ns: Int64) -> Clocks:
    """Fits the clocks of all workers. In each connected set, the median offset and the median drift are 0."""
    workers, a = len(zero_ns), anchors
    count = np.bincount(a.worker, minlength=workers)
    where, offset = connected_sets(a, zero_ns)
    rows = np.maximum(count, 1)
    mean = np.bincount(a.worker, a.end_ns, workers) / rows
    since_mean = a.end_ns - mean[a.worker]
    spread = np.maximum(np.sqrt(np.bincount(a.worker, since_mean * since_mean, workers) / rows), 1.0)
    shift, drift, noise = _fit(a, _relative_ends(a, zero_ns + offset), since_mean, spread)
    known = count >= MIN_ANCHORS
    where = np.where(known, where, -1)
    sets = int(where.max(initial=-1)) + 1
    error = noise / (spread * np.sqrt(rows))
    has_drift = known & (count >= MIN_ANCHORS_FOR_DRIFT) & (SURE_ERRORS * error < LARGEST_DRIFT)
    drift = np.where(has_drift, drift, 0.0)
    time = zero_ns + offset + np.rint(mean).astype(np.int64)
    for number in range(sets):
        # Anchors do not determine the scale of the common time axis: the median drift is 0.
        mine = np.flatnonzero(where == number)
        stretch = float(np.median(drift[mine]))
        shift[mine] -= stretch * (time[mine] - int(np.sort(time[mine])[len(mine) // 2]))
        drift[mine] = np.where(has_drift[mine], drift[mine] - stretch, 0.0)
    # A drift within noise is ignored: extrapolated beyond the anchors, it would shift times by more than their scatter.
    has_drift &= np.abs(drift) > SURE_ERRORS * error
    drift = np.where(has_drift, drift, 0.0)
    offset += np.rint(shift - drift * mean).astype(np.int64)
    offset -= median_by(where + 1, offset, sets + 1)[where + 1]
    how = np.where(known, np.where(has_drift, HOW.index(DRIFT), HOW.index(OFFSET)), HOW.index(UNKNOWN))
    nothing = np.zeros(workers, np.int64)
    found = Clocks(zero_ns, np.where(known, offset, 0), drift, nothing, count, nothing, how, where)
    residual, outliers = _residuals(a, found)
    return replace(found, residual_ns=residual, aside=outliers)


def _relative_ends(a: Anchors, zero_ns: Int64) -> Float64:
    """Returns the time from the first end of a collective to the end of each call of the collective, ns.

    Floats represent these small numbers exactly.
    """
    end = zero_ns[a.worker] + a.end_ns
    first = np.full(a.matches, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first, a.match, end)
    return (end - first[a.match]).astype(np.float64)


def _fit(a: Anchors, end: Float64, since_mean: Float64, spread: Float64) -> tuple[Float64, Float64, Float64]:
    """Returns the shift at the mean time, the drift, and the standard deviation of the ends of each worker.

    The fit uses iteratively reweighted least squares with Cauchy weights. A prior pulls drifts towards 0.
    """
    workers, time = len(spread), since_mean / spread[a.worker]
    shift, slope = np.zeros(workers), np.zeros(workers)
    if not len(end):
        return shift, slope, np.zeros(workers)
    common: Float64 = median_by(a.match, np.rint(end).astype(np.int64), a.matches).astype(np.float64)
    now = end
    for _ in range(_MAX_ROUNDS):
        off = now - common[a.match]
        scale = max(MAD_TO_DEVIATION * float(np.median(np.abs(off))), 1.0)
        weight = 1 / (1 + (off / (_CAUCHY * scale)) ** 2)
        prior = (scale / (spread * LARGEST_DRIFT)) ** 2
        move, turn = np.split(_step(a, time, weight, prior, now, slope), 2)
        shift, slope = shift + move, slope + turn
        now = end + shift[a.worker] + slope[a.worker] * time
        common = np.bincount(a.match, weight * now, a.matches) / np.bincount(a.match, weight, a.matches)
        if max(np.abs(move).max(), np.abs(turn).max()) < max(0.01 * scale, 1.0):
            break
    distances: Int64 = np.rint(np.abs(now - common[a.match])).astype(np.int64)
    return shift, slope / spread, MAD_TO_DEVIATION * np.maximum(median_by(a.worker, distances, workers), 1)


def _step(a: Anchors, time: Float64, weight: Float64, prior: Float64, now: Float64, slope: Float64) -> Float64:
    """Updates shifts and slopes by conjugate gradients, which need no dense matrix of workers.

    The common end of each collective, the weighted mean of its calls' ends, is eliminated.
    """
    workers, of_match = len(slope), np.bincount(a.match, weight, a.matches)

    def moved(values: Float64, slopes: Float64) -> Float64:
        off = weight * (values - (np.bincount(a.match, weight * values, a.matches) / of_match)[a.match])
        of_slope = np.bincount(a.worker, off * time, workers) + prior * slopes
        return np.concatenate((np.bincount(a.worker, off, workers), of_slope))

    diagonal = (
        np.bincount(a.worker, weight, workers),
        np.bincount(a.worker, weight * time * time, workers) + prior,
    )
    steepest = np.maximum(np.concatenate(diagonal), 1e-9)
    step, rest = np.zeros(2 * workers), -moved(now, slope)
    way = rest / steepest
    size = float(rest @ way)
    enough = 1e-8 * size
    for _ in range(_MAX_SOLVER_STEPS):
        shifts, slopes = np.split(way, 2)
        image = moved(shifts[a.worker] + slopes[a.worker] * time, slopes)
        curved = float(way @ image)
        # All clocks of a connected set may shift together, so the remaining curvature is rounding.
        if size <= enough or curved <= _MIN_CURVATURE * float(way @ (steepest * way)):
            break
        length = size / curved
        step, rest = step + length * way, rest - length * image
        eased = rest / steepest
        size, before = float(rest @ eased), size
        way = eased + size / before * way
    return step


def _residuals(a: Anchors, clocks: Clocks) -> tuple[Int64, Int64]:
    workers = len(clocks.zero_ns)
    end = clocks.corrected(a.worker, a.end_ns)
    distance = np.abs(end - median_by(a.match, end, a.matches)[a.match])
    usual = quantile_by(a.worker, distance, workers, 50)
    far = distance > _OUTLIER_DEVIATIONS * MAD_TO_DEVIATION * np.maximum(usual, 1)[a.worker]
    residual = quantile_by(a.worker[~far], distance[~far], workers, 95)
    return np.where(clocks.comparable, residual, 0), np.bincount(a.worker[far], minlength=workers)


def clocks_table(clocks: Clocks, is_zero_stated: Bool) -> pa.Table:
    """Returns the clocks as a table with one row per worker, which ``clocks_from`` reads."""
    return pa.table(
        {"is_zero_stated": pa.array(is_zero_stated), **{key: pa.array(getattr(clocks, key)) for key in _COLUMNS}}
    )


def clocks_from(data: pa.Table) -> Clocks:
    return Clocks(**{key: data[key].to_numpy() for key in _COLUMNS})


_COLUMNS = Clocks.__struct_fields__
