"""Enclosing operator and module call of each allocator event."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import places_of
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind, no_rows
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit, innermost_at, nest, roots_of


class Owners(msgspec.Struct, frozen=True, eq=False):
    """Enclosing operators and modules of allocator events, or of other times on a thread. -1 = none."""

    operators: Int64
    """Rows of all operators on threads that have allocator events."""
    parent: Int32
    """For each entry of ``operators``, the index in ``operators`` of its parent."""
    root: Int32
    """For each entry of ``operators``, the index in ``operators`` of its top-level ancestor."""
    operator: Int32
    """For each event, the index in ``operators`` of its innermost operator."""
    module: Int32
    """Row of the innermost module call of each event; in the backward pass, the module of the forward operator."""
    forward: Int32
    """Row of the forward operator of each event's operator, or of its nearest ancestor that has a forward operator."""
    reported: Int32 = no_rows(np.int32)
    """Operator name (string id) that the profiler reports for each event; empty if it reports none."""

    def names(self, trace: TraceTable, events: Int64) -> Int32:
        """Returns the operator name (string id) of each event: that of the recorded call, else the reported name."""
        return self._or_reported(_take(trace.name, _take(self.operators, self.operator[events])), events)

    def callers(self, trace: TraceTable, events: Int64) -> Int32:
        return _take(trace.name, _take(self.operators, _take(self.parent, self.operator[events])))

    def outermost(self, trace: TraceTable, events: Int64) -> Int32:
        return self._or_reported(
            _take(trace.name, _take(self.operators, _take(self.root, self.operator[events]))), events
        )

    def _or_reported(self, names: Int32, events: Int64) -> Int32:
        return np.where(names == MISSING, self.reported[events], names) if len(self.reported) else names

    def modules(self, trace: TraceTable, events: Int64) -> Int32:
        return _take(trace.name, self.module[events])


def _take(values: npt.NDArray[np.signedinteger], at: npt.NDArray[np.signedinteger]) -> Int32:
    found = values[at] if len(values) else at
    return np.where(at == MISSING, MISSING, found).astype(np.int32)


def owners_of(trace: TraceTable) -> Owners:
    """Returns the innermost operator and module call of each event, or the call of the operator that the profiler reports."""
    owners = owners_at(trace, tracks_of(trace), trace.memory.time_ns)
    stated = trace.reported_memory.name
    if not len(stated):
        return owners
    call = _reported_calls(trace)
    operator = np.where(stated == MISSING, owners.operator, places_of(owners.operators, len(trace))[call])
    return replace(owners, operator=operator.astype(np.int32), reported=stated)


@cached_by_argument
def _reported_calls(trace: TraceTable) -> Int64:
    """Returns the row of the latest open call of the operator that the profiler reports for each event (-1 = none)."""
    stated, time = trace.reported_memory.name, trace.memory.time_ns
    wanted = np.zeros(len(trace.strings) + 1, np.bool_)
    wanted[stated[stated != MISSING]] = True
    calls = np.flatnonzero((trace.kind == EventKind.OPERATOR) & wanted[trace.name])
    found = np.full(len(stated), MISSING, np.int64)
    width = len(trace.strings)
    pair = trace.track[calls].astype(np.int64) * width + trace.name[calls]
    pairs, which = np.unique(pair, return_inverse=True)
    group = which.astype(np.int32)
    start, end = trace.start_ns[calls], trace.ends(calls)
    parent = nest(group, start, end).parent
    reported = np.flatnonzero(stated != MISSING)
    for track in np.unique(trace.track[calls]).tolist():
        matches = pairs[pairs // width == track] % width
        calls_it = np.zeros(width, np.bool_)
        calls_it[matches] = True
        event = reported[calls_it[stated[reported]]]
        place = np.searchsorted(pairs, track * width + stated[event].astype(np.int64)).astype(np.int32)
        call = innermost_at(group, start, end, parent, place, time[event])
        row = np.append(calls, MISSING)[call]
        # Rows are in order of time: of calls on several threads, the latest counts.
        found[event] = np.maximum(found[event], row)
    return found


def owners_at(trace: TraceTable, track: Int32, time: Int64) -> Owners:
    """Returns the innermost operator and module call at each (track, time). Track -1 means no thread."""
    known = np.unique(track[track != MISSING])
    operators = np.flatnonzero((trace.kind == EventKind.OPERATOR) & np.isin(trace.track, known))
    parent = places_of(operators, len(trace))[trace.operator[operators]]
    operator = innermost_at(
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
        place = innermost_at(trace.track[rows], trace.start_ns[rows], trace.ends(rows), nesting.parent, at_track, at)
        return _take(rows.astype(np.int32), place)

    module = around(track, time)
    backward = (module == MISSING) & (forward != MISSING)
    module[backward] = around(trace.track[forward[backward]], trace.start_ns[forward[backward]])
    return module


@cached_by_argument
def tracks_of(trace: TraceTable) -> Int32:
    """Returns the track of each event, or of the call of its reported operator; -1 if its thread has no rows."""
    memory = trace.memory
    of_thread = {(t.pid, t.tid): i for i, t in enumerate(trace.tracks) if not t.is_device}
    key = memory.pid.astype(np.int64) << 32 | memory.tid.astype(np.int64)
    keys, which = np.unique(key, return_inverse=True)
    threads = [(trace.strings[int(k >> 32)], trace.strings[int(k & 0xFFFFFFFF)]) for k in keys]
    found = [of_thread.get(thread, MISSING) for thread in threads]
    tracks = np.array(found, np.int32)[which.ravel()] if found else np.empty(0, np.int32)
    if not len(trace.reported_memory.name):
        return tracks
    call = _reported_calls(trace)
    return np.where(call == MISSING, tracks, np.append(trace.track, MISSING)[call]).astype(np.int32)
