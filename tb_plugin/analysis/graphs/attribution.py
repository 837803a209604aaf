"""What stands behind device work: the operator that launched it, of replayed work the one that the capture tells."""

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
    """Returns the innermost scope of these kinds that the capture had around each replayed row; -1: none, or no replay."""
    if not has_replays(trace):
        return np.full(len(rows), MISSING, np.int32)
    origins = origins_of(trace)
    found: Int32 = origins.scopes.nearest(*kinds)[origins.at(rows)]
    return found


def operator_names(trace: TraceTable, rows: npt.NDArray[np.integer]) -> Int64:
    """Returns the name (string id) of the operator behind each device row: the capture's, else the one that launched it."""
    names: Int64 = np.append(trace.name, MISSING)[trace.operator[rows]].astype(np.int64)
    scope = scopes_behind(trace, rows, EventKind.OPERATOR)
    known = scope != MISSING
    if known.any():
        names[known] = origins_of(trace).scopes.name[scope[known]]
    return names


def has_operator(trace: TraceTable, rows: npt.NDArray[np.integer]) -> Bool:
    """Returns which device rows have an operator: one launched them, or the capture tells which one they stand for."""
    found: Bool = (trace.operator[rows] != MISSING) | (scopes_behind(trace, rows, EventKind.OPERATOR) != MISSING)
    return found


def is_eligible(trace: TraceTable, rows: npt.NDArray[np.integer]) -> Bool:
    """Returns behind which device rows an operator stands that can use matrix units, by its name."""
    found: Bool = np.append(trace.matrix_eligible, False)[trace.operator[rows]]
    scope = scopes_behind(trace, rows, EventKind.OPERATOR)
    known = scope != MISSING
    if known.any():
        found[known] = origins_of(trace).scopes.is_eligible[scope[known]]
    return found


def counted_scopes(trace: TraceTable, work: Int64, bears: Bool) -> tuple[Int32, Bool]:
    """Returns for some device work the scope that it counts for (-1 = none), and whether it is backward work of it.

    What ran inside of a call that ``bears`` is its own, also where the backward pass repeats the call; other backward work
    is that of what stands around its forward operator.
    """
    origins = origins_of(trace)
    behind = origins.at(work)
    backward = np.zeros(len(work), np.bool_)
    if not bears.any() or (behind == MISSING).all():
        return behind, backward
    scopes = origins.scopes
    # One more answers for -1, here and below.
    own = np.where(bears, np.arange(len(bears)), MISSING).astype(np.int32)
    around = np.append(inherit(own, scopes.parent), np.int32(MISSING))[behind]
    is_backward = np.append(scopes.is_backward, False)
    apart = is_backward[behind] & ~is_backward[around]
    forward = np.append(scopes.forward, np.int32(MISSING))[scopes.nearest(EventKind.OPERATOR)[behind]]
    return np.where(apart, forward, behind).astype(np.int32), apart & (forward != MISSING)
