"""How far the clocks of workers are apart and how they drift, from the ends of collectives that all ranks leave together.

A worker's clock that shows ``zero_ns + at`` is corrected by adding ``offset_ns + drift * at`` (``at`` counts from the begin
of its trace). Unknown are the offset and drift of each worker and the common end of each collective. The sum of a function of
the distances from the common ends is made small, one that grows ever slower: an end that lies far off moves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.lib.groupby import MAD_TO_DEVIATION, median_by, quantile_by
from tb_plugin.views.distributed.clocks.anchor_calls import Anchors
from tb_plugin.views.distributed.clocks.drift_errors import SURE_ERRORS, drift_errors, scatter_of
from tb_plugin.views.distributed.clocks.fit import LARGEST_DRIFT, Ends, connected, fitted, relative

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

UNKNOWN, OFFSET, DRIFT = "unknown", "offset", "offset and drift"
HOW = (UNKNOWN, OFFSET, DRIFT)
"""What is known of a clock. ``offset``: anchors are too few, or too close to each other, to tell a drift from none, or it is
none as far as they tell."""
FEWEST = 3
"""Anchors that a worker needs: with fewer, nothing says how far they can be trusted."""
FEWEST_FOR_DRIFT = 6

_FAR = 6
"""An end is set aside when it is so many standard deviations (by the median) of its worker off: of normal ones none is."""


@dataclass(frozen=True, eq=False)
class Clocks:
    """The clock of each worker: n rows. Numbers of an unknown one are 0."""

    zero_ns: Int64
    """What it showed when its trace began (time 0 of the trace)."""
    offset_ns: Int64
    """To add to what it showed then."""
    drift: Float64
    """To add for each nanosecond since then."""
    drift_error: Float64
    """One standard error of the drift (``errors.py``), as far as the anchors scatter like noise."""
    residual_ns: Int64
    """95 of 100 of its anchors, but those set aside, end no further than this from the common end, once corrected."""
    anchors: Int64
    """Ends of collectives that tell its offset."""
    aside: Int64
    """Those of them that end so far from the common end that something held them up: they are not in the residual."""
    how: Int64
    """Position in HOW."""
    connected: Int64
    """Workers with the same number meet in collectives, if only by way of others; 0 has most workers; -1 = unknown."""

    @property
    def known(self) -> Bool:
        """Returns which clocks can be compared."""
        known: Bool = self.how != HOW.index(UNKNOWN)
        return known

    @cached_property
    def begin_ns(self) -> Int64:
        """Returns when the trace of each worker began, corrected, since the first of those that are known began."""
        begin = self.zero_ns + self.offset_ns
        first: Int64 = begin[self.known] if self.known.any() else begin
        return begin - int(first.min(initial=np.iinfo(np.int64).max)) if len(begin) else begin

    def corrected(self, worker: Int64, at_ns: Int64) -> Int64:
        """Returns times of the traces of some workers on one axis, which begins as ``begin_ns`` says."""
        return self.begin_ns[worker] + at_ns + np.rint(self.drift[worker] * at_ns).astype(np.int64)


def clocks_of(anchors: Anchors, zero_ns: Int64) -> Clocks:
    """Returns the clocks of all workers; the median of those that are connected has offset 0 and drift 0."""
    workers, a = len(zero_ns), anchors
    count = np.bincount(a.worker, minlength=workers)
    where, offset = connected(a, zero_ns)
    rows = np.maximum(count, 1)
    mean = np.bincount(a.worker, a.end_ns, workers) / rows
    away = a.end_ns - mean[a.worker]
    spread = np.maximum(np.sqrt(np.bincount(a.worker, away * away, workers) / rows), 1.0)
    ends = Ends(a.worker, a.match, workers, a.matches, relative(a, zero_ns + offset), away / spread[a.worker])
    shift, slope, off = fitted(ends, spread)
    known = count >= FEWEST
    where = np.where(known, where, -1)
    sets = int(where.max(initial=-1)) + 1
    error = drift_errors(a, scatter_of(a, off, 2 * (int(known.sum()) - sets)), where, slope / spread)
    told = (SURE_ERRORS * error < LARGEST_DRIFT) & (count >= FEWEST_FOR_DRIFT)
    shift, drift = _settled(
        zero_ns + offset + np.rint(mean).astype(np.int64), where, shift, np.where(told, slope / spread, 0)
    )
    # What noise alone may be is no drift: carried beyond the anchors, it would move times by far more than they scatter.
    told &= np.abs(drift) > SURE_ERRORS * error
    drift = np.where(told, drift, 0.0)
    offset += np.rint(shift - drift * mean).astype(np.int64)
    offset -= median_by(where + 1, offset, sets + 1)[where + 1]
    how = np.where(known, np.where(told, HOW.index(DRIFT), HOW.index(OFFSET)), HOW.index(UNKNOWN))
    nothing = np.zeros(workers, np.int64)
    offset, drift = np.where(known, offset, 0), np.where(known, drift, 0.0)
    error = np.where(known & told, error, 0.0)
    found = Clocks(zero_ns, offset, drift, error, nothing, count, nothing, how, where)
    residual, aside = _trust(a, found)
    return replace(found, residual_ns=residual, aside=aside)


def _settled(time_ns: Int64, where: Int64, shift: Float64, drift: Float64) -> tuple[Float64, Float64]:
    """What to add at a time of each worker, and its drift, when the axis is stretched so that the median drift is 0.

    The axis itself may be stretched and moved: no end tells.
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


def _trust(a: Anchors, clocks: Clocks) -> tuple[Int64, Int64]:
    """The residual of each worker, and how many of its anchors are set aside."""
    workers = len(clocks.zero_ns)
    end = clocks.corrected(a.worker, a.end_ns)
    apart = np.abs(end - median_by(a.match, end, a.matches)[a.match])
    usual = quantile_by(a.worker, apart, workers, 50)
    far = apart > _FAR * MAD_TO_DEVIATION * np.maximum(usual, 1)[a.worker]
    residual = quantile_by(a.worker[~far], apart[~far], workers, 95)
    return np.where(clocks.known, residual, 0), np.bincount(a.worker[far], minlength=workers)


def clocks_table(clocks: Clocks, is_zero_stated: Bool) -> pa.Table:
    """Returns what is known of the clock of each worker, a row each; ``clocks_from`` reads it."""
    return pa.table(
        {"is_zero_stated": pa.array(is_zero_stated), **{key: pa.array(getattr(clocks, key)) for key in _COLUMNS}}
    )


def clocks_from(data: pa.Table) -> Clocks:
    """Returns the clocks that such a table holds."""
    return Clocks(**{key: data[key].to_numpy() for key in _COLUMNS})


_COLUMNS = tuple(field.name for field in fields(Clocks))
