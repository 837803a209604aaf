"""Overflowed durations of device work."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.trace.report import Issue, ReadReport
from tb_plugin.model.trace.rows import Rows
from tb_plugin.model.trace.schema import DEVICE_WORK, ON_DEVICE, EventKind, of_kind
from tb_plugin.model.trace.table import ClippedRows

# Work longer than the rest of the trace times this is implausible.
ABSURD = 10
# Shorter work is always plausible: kernels of a stream may overlap by design.
LEAST_NS = 100_000_000
CODE = "overflowed_duration"


class Clipped(msgspec.Struct, frozen=True, eq=False):
    """Rows whose end is implausible, and a plausible end for each of these rows."""

    row: Int64
    end: Int64


def find_overflows(rows: Rows) -> Clipped:
    """Returns the device work that is implausibly long although later work ran on its stream in the meantime.

    Work is implausible if it is longer than ``LEAST_NS`` and more than ``ABSURD`` times as long as the rest of the
    trace. Its new end is the start of the next work on its stream. If there is no next work, the new end is the end
    of the trace.
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
    new = np.concatenate(([True], (track[1:] != track[:-1]) | (start[1:] != start[:-1])))
    moments = np.flatnonzero(new)
    same = np.append(track[moments[1:]] == track[moments[:-1]], False)
    following = np.append(start[moments[1:]], 0)
    moment = np.cumsum(new) - 1
    return same[moment], following[moment]


def clip_overflows(rows: Rows) -> tuple[Rows, ClippedRows]:
    """Replaces implausible ends of rows. Returns the rows, and the recorded durations of the changed rows."""
    found = find_overflows(rows)
    if not len(found.row):
        return rows, ClippedRows()
    end = rows.end.copy()
    end[found.row] = found.end
    recorded = (rows.end - rows.start)[found.row]
    return replace(rows, end=end), ClippedRows(found.row.astype(np.int32), recorded)


def report_with_overflow(report: ReadReport, cut: ClippedRows) -> ReadReport:
    """Returns the report with an additional issue about the rows whose duration was shortened."""
    count = len(cut.row)
    if not count:
        return report
    text = "Impossible durations were shortened: longer than the trace, although their stream went on."
    issue = Issue(code=CODE, outcome="repaired", text=text, count=count)
    return replace(report, events_repaired=report.events_repaired + count, issues=(*report.issues, issue))
