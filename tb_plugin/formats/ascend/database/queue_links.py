"""Operators that enqueued device tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import number_groups
from tb_plugin.model.trace.links import first_with_key
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import ArrowEnds
from tb_plugin.model.trace.tree import innermost_at, nest

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]


def enqueuing_operator(columns: Mapping[str, Any], arrows: ArrowEnds, tasks: Int64) -> Int64:
    """Returns the row of the operator that enqueued each task; -1 = none.

    The call that launches a task runs inside a dequeue range. An arrow leads to this range from the enqueue range,
    which is inside the operator.
    """
    none = np.full(len(tasks), MISSING, np.int64)
    kind, correlation = columns["kind"], columns["correlation"]
    calls = np.flatnonzero((kind == EventKind.RUNTIME) & (correlation > 0))
    call = first_with_key(correlation[calls], calls, correlation[tasks])
    width = int(max(columns["pid"].max(initial=0), columns["tid"].max(initial=0))) + 1
    track = number_groups(columns["pid"].astype(np.int64) * width + columns["tid"])[0].astype(np.int32)
    known = np.flatnonzero(call != MISSING)
    if not len(known) or not len(arrows.end_row):
        return none
    taken = _around(columns, track, np.unique(arrows.end_row).astype(np.int64), call[known].astype(np.int64))
    known, taken = known[taken != MISSING], taken[taken != MISSING]
    put = first_with_key(arrows.end_row.astype(np.int64) + 1, arrows.start_row.astype(np.int64), taken + 1).astype(
        np.int64
    )
    operators = np.flatnonzero(kind == EventKind.OPERATOR)
    none[known] = _around(columns, track, operators, put)
    return none


def _around(columns: Mapping[str, Any], track: Int32, rows: Int64, inner: Int64) -> Int64:
    """Returns, for each row in ``inner``, the innermost of ``rows`` on the same thread that is open when the row
    starts.

    -1 means that there is none.
    """
    start, dur = columns["start_ns"], columns["dur_ns"]
    rows = rows[np.lexsort((-dur[rows], start[rows]))]
    if not len(rows) or not len(inner):
        return np.full(len(inner), MISSING, np.int64)
    begin, end = start[rows], start[rows] + dur[rows]
    found = innermost_at(track[rows], begin, end, nest(track[rows], begin, end).parent, track[inner], start[inner])
    return np.where(found != MISSING, rows[found], MISSING)
