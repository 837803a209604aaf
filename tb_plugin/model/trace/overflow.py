"""Durations of device work that cannot be right, because they overflowed in the recorder: found, and cut to what can be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tb_plugin.model.trace.report import Issue, ReadReport
from tb_plugin.model.trace.rows import Rows
from tb_plugin.model.trace.schema import DEVICE_WORK, ON_DEVICE, EventKind, of_kind
from tb_plugin.model.trace.table import ClippedRows

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

ABSURD = 10
"""A piece of work that takes more than so many lengths of everything else of the trace is not believed ..."""
LEAST_NS = 100_000_000
"""... nor is one asked about that takes no longer than this: kernels of a stream may overlap by design, for a while."""
CODE = "overflowed_duration"


@dataclass(frozen=True, eq=False)
class Clipped:
    """Rows whose end is not believed, and where it can be at the latest."""

    row: Int64
    end: Int64


def overflowed(rows: Rows) -> Clipped:
    """Returns the device work that lasts absurdly long although its stream, which works in order, went on meanwhile.

    The length of everything else runs from the first start to the last start or the last end on the host. Work that takes
    more than ``ABSURD`` times that length (and ``LEAST_NS``), while something later started on its stream, ends where
    that started; the last piece of work of such a stream ends with everything else.
    """
    nothing = np.empty(0, np.int64)
    if not len(rows.start):
        return Clipped(nothing, nothing)
    dur = rows.end - rows.start
    if int(dur.max()) <= LEAST_NS:
        return Clipped(nothing, nothing)
    on_host = ~of_kind(rows.kind, *ON_DEVICE)
    last = max(int(rows.start.max()), int(rows.end[on_host].max(initial=0)))
    long = dur > max(ABSURD * (last - int(rows.start.min())), LEAST_NS)
    work = np.flatnonzero(of_kind(rows.kind, *DEVICE_WORK))
    if not long[work].any():
        return Clipped(nothing, nothing)
    work = work[np.argsort(rows.track[work], kind="stable")]  # by stream, then by start
    follows, next_start = _next_starts(rows.track[work], rows.start[work])
    contradicted = long[work] & follows
    in_stream = np.isin(rows.track, np.unique(rows.track[work[contradicted]]))
    end = np.maximum(rows.start, last)
    end[work[contradicted]] = next_start[contradicted]
    found = np.flatnonzero(long & in_stream & of_kind(rows.kind, *DEVICE_WORK, EventKind.DEVICE_ANNOTATION))
    return Clipped(found, end[found])


def _next_starts(track: npt.NDArray[np.int32], start: Int64) -> tuple[Bool, Int64]:
    """Whether something starts later on the track of each row, and when the next does; rows sorted by track and start."""
    new = np.concatenate(([True], (track[1:] != track[:-1]) | (start[1:] != start[:-1])))
    moments = np.flatnonzero(new)
    same = np.append(track[moments[1:]] == track[moments[:-1]], False)
    following = np.append(start[moments[1:]], 0)
    moment = np.cumsum(new) - 1
    return same[moment], following[moment]


def clipped(rows: Rows) -> tuple[Rows, ClippedRows]:
    """Returns the rows with ends that can be, and what was recorded of those that were cut."""
    found = overflowed(rows)
    if not len(found.row):
        return rows, ClippedRows()
    end = rows.end.copy()
    end[found.row] = found.end
    recorded = (rows.end - rows.start)[found.row]
    return replace(rows, end=end), ClippedRows(found.row.astype(np.int32), recorded)


def told(report: ReadReport, cut: ClippedRows) -> ReadReport:
    """Returns the report with what was cut."""
    count = len(cut.row)
    if not count:
        return report
    text = "Impossible durations were shortened: longer than the trace, although their stream went on."
    issue = Issue(code=CODE, outcome="repaired", text=text, count=count)
    return replace(report, events_repaired=report.events_repaired + count, issues=(*report.issues, issue))
