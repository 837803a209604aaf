"""Origins: what stood around each piece of replayed work in the capture (operator, module, Python), and how that is known."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.replays.found import replays_of
from tb_plugin.trace.captured import Scopes
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]


class Way(IntEnum):
    """How it is known what stands behind replayed work; of several the first that tells."""

    ANNOTATION = 0
    """The recorder wrote it beside the work."""
    CAPTURE = 1
    """The capture is in the same trace."""
    CAPTURE_TRACE = 2
    """The capture, or the same work run eagerly, is in another trace, which lies beside it or was named."""
    EAGER = 3
    """The same work ran eagerly elsewhere in the trace, once or always in the same scopes."""
    GRAPH = 4
    """Nothing tells: it is known what was open around the launch of the graph."""


@dataclass(frozen=True, eq=False)
class Origins:
    """Replayed device rows, ascending, and the scope behind each (-1 = none known)."""

    work: Int64
    scope: Int32
    way: UInt8
    scopes: Scopes

    def at(self, rows: npt.NDArray[np.integer]) -> Int32:
        """Returns the scope behind each of some rows of the trace, -1 where none is known or nothing was replayed."""
        if not len(self.work):
            return np.full(len(rows), MISSING, np.int32)
        place = np.minimum(np.searchsorted(self.work, rows), len(self.work) - 1)
        return np.where(self.work[place] == rows, self.scope[place], MISSING).astype(np.int32)


@remembered
def origins_of(trace: TraceTable) -> Origins:
    """Returns what stands behind all replayed work of a trace, whichever steps are chosen."""
    work = np.sort(replays_of(trace).work)
    return Origins(work, np.full(len(work), MISSING, np.int32), np.full(len(work), Way.GRAPH, np.uint8), Scopes())
