"""Whom allocator events belong to: the operator and module call open on the thread of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.trace.memo import remembered
from tb_plugin.trace.numbering import places_of
from tb_plugin.trace.schema import MISSING, EventKind
from tb_plugin.trace.table import TraceTable
from tb_plugin.trace.tree import inherit, innermost, nest, roots_of

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Owners:
    """Whom each allocator event (or another moment of a thread) belongs to: rows of the trace, -1 = none."""

    operators: Int64
    """Operator rows of the threads that have allocator events."""
    parent: Int32
    """Their parents, as positions among them."""
    root: Int32
    """The outermost operators that they stand in, the same way."""
    operator: Int32
    """Position among ``operators`` for each event."""
    module: Int32
    """Row of the module call for each event; of a backward operator, the module of its forward operator."""
    forward: Int32
    """The forward operator of each event's operator, or of the nearest one around it that has one."""

    def names(self, trace: TraceTable, events: Int64) -> Int32:
        """Returns name ids of the operators of events."""
        return _take(trace.name, _take(self.operators, self.operator[events]))

    def callers(self, trace: TraceTable, events: Int64) -> Int32:
        """Returns name ids of the operators around those."""
        return _take(trace.name, _take(self.operators, _take(self.parent, self.operator[events])))

    def outermost(self, trace: TraceTable, events: Int64) -> Int32:
        """Returns name ids of the operators around which there is no other, of those open at events."""
        return _take(trace.name, _take(self.operators, _take(self.root, self.operator[events])))

    def modules(self, trace: TraceTable, events: Int64) -> Int32:
        """Returns name ids of the modules of events."""
        return _take(trace.name, self.module[events])


def _take(values: npt.NDArray[np.signedinteger], at: npt.NDArray[np.signedinteger]) -> Int32:
    """Values (ids or positions) at positions, -1 for -1."""
    found = values[at] if len(values) else at
    return np.where(at == MISSING, MISSING, found).astype(np.int32)


def owners_of(trace: TraceTable) -> Owners:
    """Returns the innermost operator and module call open on the thread of each allocator event."""
    return owners_at(trace, tracks_of(trace), trace.memory.time_ns)


def owners_at(trace: TraceTable, track: Int32, time: Int64) -> Owners:
    """Returns the innermost operator and module call open on a thread at each moment; -1 is no thread."""
    known = np.unique(track[track != MISSING])
    operators = np.flatnonzero((trace.kind == EventKind.OPERATOR) & np.isin(trace.track, known))
    parent = places_of(operators, len(trace))[trace.operator[operators]]
    operator = innermost(
        trace.track[operators],
        trace.start_ns[operators],
        trace.ends(operators),
        parent,
        track,
        time,
    )
    forward = _take(inherit(trace.forward[operators], parent), operator)
    return Owners(operators, parent, roots_of(parent), operator, _modules(trace, track, time, forward), forward)


def _modules(trace: TraceTable, track: Int32, time: Int64, forward: Int32) -> Int32:
    rows = np.flatnonzero(trace.kind == EventKind.MODULE)
    none: Int32 = np.full(len(track), MISSING, np.int32)
    if not len(rows):
        return none
    nesting = nest(trace.track[rows], trace.start_ns[rows], trace.ends(rows))

    def around(at_track: Int32, at: Int64) -> Int32:
        place = innermost(trace.track[rows], trace.start_ns[rows], trace.ends(rows), nesting.parent, at_track, at)
        return _take(rows.astype(np.int32), place)

    module = around(track, time)
    backward = (module == MISSING) & (forward != MISSING)
    module[backward] = around(trace.track[forward[backward]], trace.start_ns[forward[backward]])
    return module


@remembered
def tracks_of(trace: TraceTable) -> Int32:
    """Returns the track of each allocator event, -1 when its thread has no row."""
    memory = trace.memory
    of_thread = {(t.pid, t.tid): i for i, t in enumerate(trace.tracks) if not t.is_device}
    key = memory.pid.astype(np.int64) << 32 | memory.tid.astype(np.int64)
    keys, which = np.unique(key, return_inverse=True)
    threads = [(trace.strings[int(k >> 32)], trace.strings[int(k & 0xFFFFFFFF)]) for k in keys]
    found = [of_thread.get(thread, MISSING) for thread in threads]
    return np.array(found, np.int32)[which.ravel()] if found else np.empty(0, np.int32)
