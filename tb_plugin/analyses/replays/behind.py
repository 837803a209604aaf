"""What stands behind device work: the operator that launched it, of replayed work the one that the capture tells."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.replays.found import has_replays
from tb_plugin.analyses.replays.origins import origins_of
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.trace.table import TraceTable
from tb_plugin.trace.tree import inherit

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]


@remembered
def nearest_scopes(trace: TraceTable, *kinds: EventKind) -> Int32:
    """Returns for each scope of the origins itself or the innermost one around it of these kinds; one more is for -1."""
    scopes = origins_of(trace).scopes
    own = np.where(of_kind(scopes.kind, *kinds), np.arange(len(scopes)), MISSING).astype(np.int32)
    return np.append(inherit(own, scopes.parent), np.int32(MISSING))


def scopes_behind(trace: TraceTable, rows: npt.NDArray[np.integer], *kinds: EventKind) -> Int32:
    """Returns the innermost scope of these kinds that the capture had around each replayed row; -1: none, or no replay."""
    if not has_replays(trace):
        return np.full(len(rows), MISSING, np.int32)
    found: Int32 = nearest_scopes(trace, *kinds)[origins_of(trace).at(rows)]
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


def operator_texts(trace: TraceTable, rows: npt.NDArray[np.integer]) -> Int32:
    """Returns the input shapes (string ids, -1 = not recorded) of the operator behind each device row."""
    shape = np.full(len(trace) + 1, MISSING, np.int32)
    shape[trace.operators.row] = trace.operators.shapes
    found: Int32 = shape[trace.operator[rows]]
    scope = scopes_behind(trace, rows, EventKind.OPERATOR)
    known = scope != MISSING
    if known.any():
        found[known] = origins_of(trace).scopes.shapes[scope[known]]
    return found
