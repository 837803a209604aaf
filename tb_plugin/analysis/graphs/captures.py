"""Launch sequences: work captured into graphs, and eager work."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.annotations import launched_by
from tb_plugin.analysis.backward import works_for
from tb_plugin.analysis.graphs.matching import with_names
from tb_plugin.analysis.graphs.replays import kernel_args, replays_of
from tb_plugin.analysis.graphs.scopes import INPUTS, WORK_IN, merge_equal_scopes, scopes_around
from tb_plugin.analysis.kernel_facts import first_reported_text
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.lib.intervals import Ranges, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.extra_columns import BLOCK, GRID, LAUNCHED
from tb_plugin.model.trace.graph_capture import Captured, Sequences
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, CallRole, EventKind, no_rows, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import innermost_at, nest

_MAKES = {CallRole.LAUNCH: EventKind.KERNEL, CallRole.COPY: EventKind.MEMCPY, CallRole.SET: EventKind.MEMSET}


class Recorded(msgspec.Struct, frozen=True, eq=False):
    """Launch sequences that have no scopes. ``source`` is the host row that launched each node."""

    sequences: Sequences = msgspec.field(default_factory=Sequences)
    source: Int64 = no_rows(np.int64)


@cached_by_argument
def captured_in(trace: TraceTable) -> Captured:
    """Returns the sequences that can be matched to graphs: first the captures in the trace, then the eager work in
    the trace.

    The trace does not have to contain replays.
    """
    parts = (captures(trace), eager_sequences(trace))
    scopes, scope = scopes_around(trace, np.concatenate([part.source for part in parts]))
    first, second = (part.sequences for part in parts)
    columns = ("kind", "name", "grid", "block", "is_capture", "is_forked")
    both = {name: np.concatenate((getattr(first, name), getattr(second, name))) for name in columns}
    begin = np.append(first.begin[:-1], second.begin + first.begin[-1])
    sequences = Sequences(begin=begin, scope=scope, **both)
    if len(first):
        sequences = with_names(sequences, merge_equal_scopes(scopes, WORK_IN, INPUTS)[1][scope].astype(np.int64))
    return Captured(scopes=scopes, sequences=sequences)


@cached_by_argument
def captures(trace: TraceTable) -> Recorded:
    """Returns the launches recorded during graph captures: one sequence per capture, sorted by time.

    A launch belongs to the capture on its thread or, if there is none, to the capture on the thread that waits for
    its thread. Launches that ran device work are excluded, because they were not captured.
    """
    track, start, end = _windows(trace)
    if not len(start):
        return Recorded()
    calls = _launches(trace)
    calls = calls[(trace.start_ns[calls] >= start.min()) & (trace.start_ns[calls] < end.max())]
    time, thread = trace.start_ns[calls], trace.track[calls]
    parent = nest(track, start, end).parent
    of = innermost_at(track, start, end, parent, thread, time)
    of = np.where(of == MISSING, innermost_at(track, start, end, parent, works_for(trace)[thread], time), of)
    calls, of = calls[of != MISSING], of[of != MISSING]
    order = np.argsort(of, kind="stable")
    calls, of = calls[order], of[order]
    roles = _roles(trace)[trace.name[calls]]
    kind = np.zeros(len(calls), np.uint8)
    for role, made in _MAKES.items():
        kind[roles == role] = made
    joins = np.flatnonzero(trace.calls_that(CallRole.JOIN))
    within = innermost_at(track, start, end, parent, trace.track[joins], trace.start_ns[joins])
    sequences = Sequences(
        begin=np.searchsorted(of, np.arange(len(start) + 1)).astype(np.int64),
        is_capture=np.ones(len(start), np.bool_),
        kind=kind,
        name=first_reported_text(trace, (LAUNCHED,), calls),
        grid=first_reported_text(trace, (GRID,), calls),
        block=first_reported_text(trace, (BLOCK,), calls),
        scope=np.full(len(calls), MISSING, np.int32),
        is_forked=np.bincount(within[within != MISSING], minlength=len(start)) > 0,
    )
    return Recorded(sequences, calls)


def captured_by(trace: TraceTable, thread: int) -> Ranges:
    """Returns the time ranges in which a thread (track number) captures graphs."""
    track, start, end = _windows(trace)
    return union(start[track == thread], end[track == thread])


@cached_by_argument
def eager_sequences(trace: TraceTable) -> Recorded:
    """Returns the device work that is launched eagerly, not by graphs: one sequence per thread and device, in
    launch order.
    """
    work = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))
    source = launched_by(trace, work)
    is_eager = source != MISSING
    is_eager &= ~np.isin(work, replays_of(trace).work, assume_unique=True)
    work, source = work[is_eager], source[is_eager].astype(np.int64)
    if not len(work):
        return Recorded()
    of = group(works_for(trace)[trace.track[source]], trace.device[work]).of
    order = np.lexsort((source, of))
    work, source, of = work[order], source[order], of[order]
    count = int(of[-1]) + 1
    grid, block = kernel_args(trace, work)
    sequences = Sequences(
        begin=np.searchsorted(of, np.arange(count + 1)).astype(np.int64),
        is_capture=np.zeros(count, np.bool_),
        kind=trace.kind[work],
        name=trace.name[work],
        grid=grid,
        block=block,
        scope=np.full(len(work), MISSING, np.int32),
        is_forked=np.zeros(count, np.bool_),
    )
    return Recorded(sequences, source)


@cached_by_argument
def _windows(trace: TraceTable) -> tuple[Int32, Int64, Int64]:
    """Returns the thread, start and end of each capture, sorted by start, then longest first.

    A capture lasts from the call that starts it to the call that ends it.
    """
    begins, ends = trace.calls_that(CallRole.CAPTURE), trace.calls_that(CallRole.CAPTURED)
    waiting: dict[int, list[int]] = {}
    found: list[tuple[int, int, int]] = []
    for row in np.flatnonzero(begins | ends).tolist():
        above = trace.parent[row]
        if above != MISSING and (begins[above] or ends[above]):
            continue  # the driver call inside the runtime call
        thread = int(trace.track[row])
        if begins[row]:
            waiting.setdefault(thread, []).append(int(trace.start_ns[row] + trace.dur_ns[row]))
        elif waiting.get(thread):
            found.append((waiting[thread].pop(), int(trace.start_ns[row]), thread))
    found.sort(key=lambda window: (window[0], -window[1]))
    start, end, track = np.array(found, np.int64).reshape(-1, 3).T
    return track.astype(np.int32), start, end


def _launches(trace: TraceTable) -> Int64:
    """Returns the rows of launches that ran no device work, because they create graph nodes instead.

    Nested calls count as one launch.
    """
    is_call = np.append(trace.calls_that(*_MAKES), False)
    outer = np.flatnonzero(is_call)
    above = np.where(is_call[trace.parent[outer]], trace.parent[outer], MISSING)
    inside = above != MISSING
    ran = np.zeros(len(trace) + 1, np.bool_)
    ran[trace.launch[of_kind(trace.kind, *DEVICE_WORK)]] = True
    ran[above[inside & ran[outer]]] = True
    found: Int64 = outer[~inside & ~ran[outer]]
    return found


def _roles(trace: TraceTable) -> npt.NDArray[np.uint8]:
    roles = np.full(len(trace.strings) + 1, CallRole.OTHER, np.uint8)
    roles[trace.calls.name] = trace.calls.role
    return roles
