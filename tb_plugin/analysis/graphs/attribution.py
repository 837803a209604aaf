"""What stands behind device work: the operator that launched it, of replayed work the one that the capture tells."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.replays import has_replays
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

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
