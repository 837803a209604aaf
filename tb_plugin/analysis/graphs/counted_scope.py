"""Which scope of a capture replayed work counts for: the one that launched it, or of backward work the forward operator's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]


def scopes_of(trace: TraceTable, work: Int64, bears: Bool) -> tuple[Int32, Bool]:
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
