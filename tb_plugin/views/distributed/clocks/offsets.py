"""Clock offsets and drifts of workers.

The corrected time of a clock reading ``zero_ns + at`` is the reading plus ``offset_ns + drift * at``. ``at`` is the
time since the start of the trace. A robust fit chooses offsets and drifts so that the calls of each collective end
together.
"""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.lib.groupby import MAD_TO_DEVIATION, median_by, quantile_by
from tb_plugin.views.distributed.clocks.anchor_calls import Anchors
from tb_plugin.views.distributed.clocks.drift_errors import SURE_ERRORS, drift_errors, scatter_of
from tb_plugin.views.distributed.clocks.fit import LARGEST_DRIFT, Ends, connected_sets, fit_clocks, relative_ends

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

UNKNOWN, OFFSET, DRIFT = "unknown", "offset", "offset and drift"
# OFFSET: anchors are too few or too close in time to fit a drift, or the drift is not significant
HOW = (UNKNOWN, OFFSET, DRIFT)
# minimum number of anchors per worker; fewer give no error estimate
FEWEST = 3
MIN_ANCHORS_FOR_DRIFT = 6

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
    drift_error: Float64
    """Standard error of the drift (``drift_errors.py``)."""
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
    ends = Ends(
        a.worker, a.match, workers, a.matches, relative_ends(a, zero_ns + offset), since_mean / spread[a.worker]
    )
    shift, slope, off = fit_clocks(ends, spread)
    known = count >= FEWEST
    where = np.where(known, where, -1)
    sets = int(where.max(initial=-1)) + 1
    error = drift_errors(a, scatter_of(a, off, 2 * (int(known.sum()) - sets)), where, slope / spread)
    has_drift = (SURE_ERRORS * error < LARGEST_DRIFT) & (count >= MIN_ANCHORS_FOR_DRIFT)
    shift, drift = _with_zero_median_drift(
        zero_ns + offset + np.rint(mean).astype(np.int64), where, shift, np.where(has_drift, slope / spread, 0)
    )
    # A drift within noise is ignored: extrapolated beyond the anchors, it would shift times by more than their scatter.
    has_drift &= np.abs(drift) > SURE_ERRORS * error
    drift = np.where(has_drift, drift, 0.0)
    offset += np.rint(shift - drift * mean).astype(np.int64)
    offset -= median_by(where + 1, offset, sets + 1)[where + 1]
    how = np.where(known, np.where(has_drift, HOW.index(DRIFT), HOW.index(OFFSET)), HOW.index(UNKNOWN))
    nothing = np.zeros(workers, np.int64)
    offset, drift = np.where(known, offset, 0), np.where(known, drift, 0.0)
    error = np.where(known & has_drift, error, 0.0)
    found = Clocks(zero_ns, offset, drift, error, nothing, count, nothing, how, where)
    residual, outliers = _residuals(a, found)
    return replace(found, residual_ns=residual, aside=outliers)


def _with_zero_median_drift(time_ns: Int64, where: Int64, shift: Float64, drift: Float64) -> tuple[Float64, Float64]:
    """Returns corrections and drifts on a common time axis that is rescaled to a median drift of 0.

    Anchors do not determine the scale of the common time axis.
    """
    shift, drift = shift.copy(), drift.copy()
    for number in range(int(where.max(initial=-1)) + 1):
        mine = np.flatnonzero(where == number)
        sure = drift[mine] != 0
        stretch = float(np.median(drift[mine][sure])) if sure.any() else 0.0
        since = time_ns[mine] - int(np.sort(time_ns[mine])[len(mine) // 2])
        shift[mine] -= stretch / (1 + stretch) * (since + shift[mine])
        drift[mine] = np.where(sure, (drift[mine] - stretch) / (1 + stretch), 0.0)
    return shift, drift


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
