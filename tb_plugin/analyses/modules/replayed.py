"""Which scope of a capture replayed work counts for: the one that launched it, or of backward work the forward operator's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.backward import backward_operators
from tb_plugin.analyses.replays.origins import origins_of
from tb_plugin.trace.numbering import places_of
from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.table import TraceTable
from tb_plugin.trace.tree import inherit

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]


def scopes_of(trace: TraceTable, work: Int64, bears: Bool) -> tuple[Int32, Bool]:
    """Returns for some device work the scope that it counts for (-1 = none), and whether it is backward work of it.

    What ran inside of a call that ``bears`` is its own, also where the backward pass repeats the call. Else backward work
    is that of the scopes of its forward operator, as far as the capture in this trace tells which one that is.
    """
    origins = origins_of(trace)
    behind = origins.at(work)
    backward = np.zeros(len(work), np.bool_)
    if not bears.any() or (behind == MISSING).all():
        return behind, backward
    scopes = origins.scopes
    nearest = inherit(np.where(bears, np.arange(len(bears)), MISSING).astype(np.int32), scopes.parent)
    nearest = np.append(nearest, np.int32(MISSING))  # one more answers for -1, here and below
    is_backward = np.append(scopes.is_backward, False)
    around = nearest[behind]
    backward = is_backward[behind] & (around != MISSING) & ~is_backward[around]
    alone = np.flatnonzero((behind != MISSING) & (around == MISSING) & is_backward[behind])
    if not len(alone):
        return behind, backward
    every = backward_operators(trace)
    # The innermost operator around each scope that has a place in the backward pass of this trace.
    rows = scopes.row
    at = every.of[rows]
    at = np.append(inherit(np.where(rows == MISSING, MISSING, at).astype(np.int32), scopes.parent), np.int32(MISSING))
    inner = at[behind[alone]]
    of_row = places_of(rows[rows != MISSING], len(trace))
    place = np.append(np.flatnonzero(rows != MISSING), MISSING)
    forward = place[of_row[np.append(every.forward, np.int32(MISSING))[inner]]].astype(np.int32)
    # As where it ran: hooks of a parameter, which communicate gradients of many modules, are of none.
    is_function = np.isin(rows, every.function[every.adds]) & (rows != MISSING)
    function = np.where(is_function, rows, MISSING).astype(np.int32)
    inside = np.append(inherit(function, scopes.parent), np.int32(MISSING))[behind[alone]]
    own = (inside == np.append(every.function, MISSING)[inner]) & ~trace.is_collective[work[alone]]
    forward[np.append(every.adds, False)[inner] & ~own] = MISSING
    behind = behind.copy()
    tied = nearest[forward] != MISSING
    behind[alone[tied]] = forward[tied]
    backward[alone[tied]] = True
    return behind, backward
