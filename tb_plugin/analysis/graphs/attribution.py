"""Operators of device work, including replayed work."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.replays import has_replays
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]


def scopes_behind(trace: TraceTable, rows: npt.NDArray[np.integer], *kinds: EventKind) -> Int32:
    """Returns, for each row, the innermost scope of these kinds that encloses it in its capture.

    The result is an index into the scopes of ``origins_of``. -1 = none, or the row is not replayed work.
    """
    if not has_replays(trace):
        return np.full(len(rows), MISSING, np.int32)
    origins = origins_of(trace)
    found: Int32 = origins.scopes.nearest(*kinds)[origins.at(rows)]
    return found


def operator_names(trace: TraceTable, rows: npt.NDArray[np.integer]) -> Int64:
    """Returns the operator name of each device row, as a string id.

    For replayed work, this is the captured operator; for other work, the operator that launched it.
    """
    names: Int64 = np.append(trace.name, MISSING)[trace.operator[rows]].astype(np.int64)
    scope = scopes_behind(trace, rows, EventKind.OPERATOR)
    known = scope != MISSING
    if known.any():
        names[known] = origins_of(trace).scopes.name[scope[known]]
    return names


def has_operator(trace: TraceTable, rows: npt.NDArray[np.integer]) -> Bool:
    """Returns, for each device row, whether its launch or its capture is inside an operator."""
    found: Bool = (trace.operator[rows] != MISSING) | (scopes_behind(trace, rows, EventKind.OPERATOR) != MISSING)
    return found


def is_eligible(trace: TraceTable, rows: npt.NDArray[np.integer]) -> Bool:
    """Returns, for each device row, whether its operator can use matrix units. The operator name decides."""
    found: Bool = np.append(trace.matrix_eligible, False)[trace.operator[rows]]
    scope = scopes_behind(trace, rows, EventKind.OPERATOR)
    known = scope != MISSING
    if known.any():
        found[known] = origins_of(trace).scopes.is_eligible[scope[known]]
    return found


def counted_scopes(trace: TraceTable, work: Int64, bears: Bool) -> tuple[Int32, Bool]:
    """Returns the scope to which the time of each device row is added (-1 = none).

    For backward work, this is the scope of the forward operator. But if a backward scope selected by ``bears``
    encloses the work, the work's own scope is returned. The second result marks work that was moved to a forward
    operator.
    """
    origins = origins_of(trace)
    behind = origins.at(work)
    backward = np.zeros(len(work), np.bool_)
    if not bears.any() or (behind == MISSING).all():
        return behind, backward
    scopes = origins.scopes
    # One more entry is for -1, here and below.
    own = np.where(bears, np.arange(len(bears)), MISSING).astype(np.int32)
    around = np.append(inherit(own, scopes.parent), np.int32(MISSING))[behind]
    is_backward = np.append(scopes.is_backward, False)
    apart = is_backward[behind] & ~is_backward[around]
    forward = np.append(scopes.forward, np.int32(MISSING))[scopes.nearest(EventKind.OPERATOR)[behind]]
    return np.where(apart, forward, behind).astype(np.int32), apart & (forward != MISSING)
