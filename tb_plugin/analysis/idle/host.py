"""Activities of launching threads, by idle cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tb_plugin.analysis.blocking_calls import asking_tracks, waits_for_device
from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.driver_calls import creates_context, set_up
from tb_plugin.analysis.graphs.captures import captured_by
from tb_plugin.analysis.idle.causes import HOST, Cause
from tb_plugin.analysis.range_patterns import DATALOADER, name_matches, search_pattern
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import EMPTY, Ranges, subtract, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, CallRole, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable

# Only the threads with the most launches are considered.
MOST_THREADS = 8
# Causes that block all threads. Profiler overhead is recorded on its own track.
OF_ALL = (Cause.PROFILER, Cause.GARBAGE_COLLECTION)
# Longer time without a CPU event of a launching thread is not attributed to Python if the trace contains no Python calls.
MAX_SILENCE_NS = 1_000_000
_CPU = (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.RUNTIME, EventKind.PYTHON, EventKind.MODULE)
_MEMORY = (CallRole.ALLOCATE, CallRole.FREE, CallRole.MAP, CallRole.UNMAP, CallRole.PIN)


@cached_by_argument
def launching_threads(trace: TraceTable, device: int) -> tuple[int, ...]:
    """Returns at most ``MOST_THREADS`` tracks that launch work or request launches, most launches first."""
    rows = covered_work(trace)
    rows = rows[(trace.device[rows] == device) & (trace.launch[rows] != MISSING)]
    thread, count = np.unique(asking_tracks(trace, rows), return_counts=True)
    most = np.lexsort((thread, -count))[:MOST_THREADS]
    return tuple(thread[most].tolist())


def delaying_ranges(trace: TraceTable, thread: int) -> Mapping[Cause, Ranges]:
    """Returns, by cause, the ranges in which a thread may delay a device. Causes may overlap."""
    rows, causes = _rows(trace)
    found = {}
    for cause in HOST:
        mine = rows[causes == cause]
        mine = mine if cause in OF_ALL else mine[trace.track[mine] == thread]
        found[cause] = union(trace.start_ns[mine], trace.ends(mine))
    found[Cause.CAPTURE] = captured_by(trace, thread)
    return found


def is_host_recorded(trace: TraceTable, threads: Iterable[int]) -> bool:
    """Returns whether any thread has operators, Python calls or annotations. Runtime calls do not suffice."""
    host = of_kind(trace.kind, EventKind.OPERATOR, EventKind.PYTHON, EventKind.MODULE, EventKind.ANNOTATION)
    return bool(np.isin(trace.track[host], list(threads)).any())


def span_of(trace: TraceTable) -> tuple[int, int]:
    """Returns the first and the last time of the recording and its steps."""
    edges = [trace.coverage.start_ns, trace.coverage.end_ns]
    if len(trace.steps.label):
        edges += [int(trace.steps.start_ns[0]), int(trace.steps.end_ns[-1])]
    return min(edges), max(edges)


@cached_by_argument
def silent_ranges(trace: TraceTable, device: int) -> Ranges:
    """Returns the ranges longer than ``MAX_SILENCE_NS`` in which no CPU event of a launching thread is recorded. Empty if
    the trace contains Python calls.
    """
    if of_kind(trace.kind, EventKind.PYTHON, EventKind.MODULE).any():
        return EMPTY
    rows = np.flatnonzero(of_kind(trace.kind, *_CPU) & np.isin(trace.track, launching_threads(trace, device)))
    low, high = span_of(trace)
    silent = subtract(Ranges(np.array([low]), np.array([high])), union(trace.start_ns[rows], trace.ends(rows)))
    long = silent.end - silent.start > MAX_SILENCE_NS
    return Ranges(silent.start[long], silent.end[long])


def rows_in(trace: TraceTable, cause: Cause) -> Int64:
    """Returns the rows of profiler overhead, garbage collection, compilation or data loading."""
    if cause == Cause.PROFILER:
        return np.flatnonzero(trace.kind == EventKind.OVERHEAD)
    names = trace.recorder.host
    patterns = {
        Cause.GARBAGE_COLLECTION: names.collecting,
        Cause.COMPILATION: names.compiling,
        Cause.INPUT: search_pattern(DATALOADER),
    }
    host = of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.PYTHON)
    return np.flatnonzero(host & name_matches(trace, patterns[cause]))


@cached_by_argument
def _rows(trace: TraceTable) -> tuple[Int64, Int64]:
    calls = trace.kind == EventKind.RUNTIME
    launches = np.zeros(len(trace), np.bool_)
    launches[trace.launch[trace.launch != MISSING]] = True
    memory = np.flatnonzero(trace.calls_that(*_MEMORY))
    first = set_up(trace, memory)
    setup = np.concatenate((np.flatnonzero(trace.calls_that(CallRole.SETUP)), memory[first], creates_context(trace)))
    # A nested operator covers no additional time.
    outermost = of_kind(trace.kind, EventKind.OPERATOR, EventKind.RUNTIME)
    parent = trace.parent
    outermost &= (parent == MISSING) | (np.append(trace.kind, EventKind.UNKNOWN)[parent] == EventKind.MODULE)
    graph = trace.calls_that(CallRole.GRAPH)
    rows = {
        **{cause: rows_in(trace, cause) for cause in (*OF_ALL, Cause.COMPILATION, Cause.INPUT)},
        Cause.INITIALISATION: setup,
        Cause.DRIVER_MEMORY: memory[~first],
        Cause.SYNCHRONISATION: np.flatnonzero(calls & waits_for_device(trace)),
        Cause.GRAPH: np.flatnonzero(graph),
        Cause.LAUNCH: np.flatnonzero(calls & launches & ~graph),
        Cause.DISPATCH: np.flatnonzero(outermost),
    }
    causes = [np.full(len(mine), cause, np.int64) for cause, mine in rows.items()]
    return np.concatenate(list(rows.values())), np.concatenate(causes)
