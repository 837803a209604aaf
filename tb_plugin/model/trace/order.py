"""Selection and order of the rows of a raw trace."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, ON_DEVICE, EventKind, of_kind
from tb_plugin.model.trace.table import RawTrace

# Nanoseconds. A longer duration is impossible.
FAR = 2**62

# Nanoseconds. A time further than this from the median is impossible, and so is a longer event on the CPU.
YEAR = 365 * 86_400 * 10**9

# Upper limit for a trace's sum of durations or of bytes. Larger sums could overflow 64 bits.
MOST = 2**61

# One day in nanoseconds. If the median time is later, times count from an epoch: then 0 means "never set", and
# negative times are impossible.
LONG = 86_400 * 10**9

# Order of events with equal start and end, by EventKind: usual parents first. Python calls are sorted by Python id.
CONTAINERS_FIRST = np.array([8, 4, 1, 2, 2, 5, 6, 6, 6, 7, 6, 8, 0, 9, 4], np.uint8)

# Names of ranges that PyTorch up to 1.11 recorded as operators.
MARKER_NAME = re.compile(
    r"ProfilerStep#|enumerate\(Data(?:Loader|Pipe)\)#|Optimizer\.|(?:Distributed)?DataParallel\.forward$|\[pl\]\["
)


def kinds(raw: RawTrace) -> npt.NDArray[np.uint8]:
    """Returns the kind of each row. Steps, data loading and optimizer ranges of old profilers become annotations."""
    marker = raw.strings.where(lambda text: MARKER_NAME.match(text) is not None)[raw.name]
    kind = raw.kind.copy()
    kind[marker & (kind == EventKind.OPERATOR)] = EventKind.ANNOTATION
    return kind


def split_by_plausibility(raw: RawTrace) -> tuple[Int64, Int64]:
    """Returns the indices of the rows with plausible times, and of the rows with impossible times."""
    if not len(raw.start_ns):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    start = raw.start_ns
    unset = (start == 0) & (raw.dur_ns == 0) & of_kind(raw.kind, *DEVICE_WORK)
    # If at least half of the starts are that late, times count from an epoch.
    if np.count_nonzero(start > LONG) * 2 >= len(start):
        unset |= start <= 0
    far = (raw.dur_ns > FAR) | (raw.dur_ns < 0) | ((raw.dur_ns > YEAR) & ~of_kind(raw.kind, *ON_DEVICE))
    if int(start.max()) - int(start.min()) > YEAR and not unset.all():
        far |= is_far_from_median(start, ~unset)
    bad = far | unset
    if not bad.all():
        # Ends relative to the first start must fit into int64. Unsigned numbers avoid an overflow here.
        first = raw.start_ns[~bad].min()
        end = (raw.start_ns.view(np.uint64) - first.view(np.uint64)) + np.maximum(raw.dur_ns, 0).view(np.uint64)
        bad |= ~bad & (end > np.iinfo(np.int64).max)
        bad[~bad] = ~is_summable(raw.dur_ns[~bad])
    return np.flatnonzero(~bad), np.flatnonzero(bad)


def is_far_from_median(time_ns: Int64, known: Bool | slice = slice(None)) -> Bool:
    """Returns whether each time is over a year from the median of the ``known`` times, of which there is at least one."""
    # Dividing by 4 keeps the difference of two int64 inside int64.
    far: Bool = np.abs(time_ns // 4 - int(np.median(time_ns[known] // 4))) > YEAR // 4
    return far


def far_from(time_ns: Int64, origin: int) -> Bool:
    """Returns, for each time, whether it is impossible in a trace that starts at ``origin``."""
    far: Bool = np.abs(time_ns // 4 - origin // 4) > YEAR // 4  # dividing by 4 avoids an overflow
    return far | (time_ns <= 0) if origin > LONG else far


def is_summable(values: Int64) -> Bool:
    """Returns which values to include so that the sum fits into 64 bits: large values are excluded if it could overflow."""
    sizes = np.abs(values.astype(np.float64))
    if sizes.sum() <= MOST:
        return np.ones(len(values), np.bool_)
    believed: Bool = sizes <= MOST / len(values)
    return believed


def overlaps_range(start_ns: Int64, end_ns: Int64, begin: int, end: int) -> Bool:
    """Returns whether each event overlaps ``[begin, end)``. Events of zero duration count if they start inside."""
    return (start_ns < end) & ((end_ns > begin) | (start_ns >= begin))


def sort(raw: RawTrace, kept: Int64) -> Int64:
    """Sorts the ``kept`` rows by start, longest first, then kind, id, name and thread, never by their order in the file."""
    start = raw.start_ns[kept]
    order = np.argsort(start, kind="stable")
    ordered = start[order]
    tie = np.concatenate(([False], ordered[1:] == ordered[:-1]))
    tied = np.flatnonzero(tie | np.concatenate((tie[1:], [False]))) if len(tie) else np.empty(0, np.int64)
    if len(tied):
        rows = kept[order[tied]]
        ident = _identity(raw, rows)
        places = (_text_rank(raw, raw.tid[rows]), _text_rank(raw, raw.pid[rows]), raw.correlation[rows])
        keys = (*places, _text_rank(raw, raw.name[rows]), ident, CONTAINERS_FIRST[raw.kind[rows]], -raw.dur_ns[rows])
        order[tied] = order[tied][np.lexsort((*keys, ordered[tied]))]
    return order


def _text_rank(raw: RawTrace, ids: Int32) -> Int64:
    distinct, which = np.unique(ids, return_inverse=True)
    rank: Int64 = np.argsort(np.argsort(np.array(raw.strings.take(distinct).to_pylist(), dtype=object).astype(str)))
    return rank[which]


def _identity(raw: RawTrace, rows: Int64) -> Int64:
    ident = raw.external_id.copy()
    ident[raw.python.row] = raw.python.python_id
    if raw.nth is not None:
        ident = np.where(raw.nth == MISSING, ident, raw.nth)
    return ident[rows]
