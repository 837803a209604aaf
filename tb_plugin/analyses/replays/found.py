"""Replays: launches of captured graphs, and their work in the order of the graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.trace.memo import remembered
from tb_plugin.trace.schema import DEVICE_WORK, MISSING, CallRole, of_kind
from tb_plugin.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Replays:
    """Launches of graphs by time. Replay i has the device rows ``work[begin[i]:begin[i + 1]]``, in the order of the graph."""

    call: Int64
    """Row of the launch."""
    begin: Int64
    work: Int64
    graph: Int32
    """Number of the graph that each launched: those with one recorded id, else with the same work in the same order."""

    def __len__(self) -> int:
        return len(self.call)


@remembered
def has_replays(trace: TraceTable) -> bool:
    """Returns whether the trace launches any captured graph."""
    return bool(trace.calls_that(CallRole.GRAPH).any())


@remembered
def replays_of(trace: TraceTable) -> Replays:
    """Returns the launches of graphs that brought device work, whichever steps are chosen."""
    none = np.empty(0, np.int64)
    if not has_replays(trace):
        return Replays(none, np.zeros(1, np.int64), none, none.astype(np.int32))
    work = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK) & (trace.launch != MISSING))
    work = work[trace.calls_that(CallRole.GRAPH)[trace.launch[work]]]
    work = work[np.argsort(trace.launch[work], kind="stable")]
    call, first = np.unique(trace.launch[work], return_index=True)
    begin = np.append(first, len(work)).astype(np.int64)
    return Replays(call.astype(np.int64), begin, work, np.arange(len(call), dtype=np.int32))
