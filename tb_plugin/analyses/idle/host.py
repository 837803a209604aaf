"""What the threads of the host that launch work are in, cause by cause: what idle time of a device is split by."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tb_plugin.analyses.busy import covered_work
from tb_plugin.analyses.driver_calls import sets_up
from tb_plugin.analyses.idle.causes import Cause
from tb_plugin.analyses.names import DATALOADER
from tb_plugin.analyses.waits import waits_for_device
from tb_plugin.trace.intervals import Ranges, union
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.schema import MISSING, CallRole, EventKind, of_kind
from tb_plugin.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

MOST_THREADS = 8
"""So many threads of a device are asked, those that launch most. More do not launch in turns."""
_MEMORY = (CallRole.ALLOCATE, CallRole.FREE, CallRole.MAP, CallRole.UNMAP, CallRole.PIN)


@remembered
def launching_threads(trace: TraceTable, device: int) -> tuple[int, ...]:
    """Returns the tracks that launch work of a device, those that launch most first."""
    rows = covered_work(trace)
    call = trace.launch[rows[trace.device[rows] == device]]
    thread, count = np.unique(trace.track[call[call != MISSING]], return_counts=True)
    most = np.lexsort((thread, -count))[:MOST_THREADS]
    return tuple(thread[most].tolist())


@remembered
def occupied(trace: TraceTable, thread: int) -> Mapping[Cause, Ranges]:
    """Returns when a thread is in what may keep a device waiting, by cause. What several causes cover is in each of them."""
    rows = _causes(trace)
    found = {}
    for cause, (chosen, of_all) in rows.items():
        mine = chosen if of_all else chosen[trace.track[chosen] == thread]
        found[cause] = union(trace.start_ns[mine], trace.start_ns[mine] + trace.dur_ns[mine])
    return found


@remembered
def _causes(trace: TraceTable) -> Mapping[Cause, tuple[Int64, bool]]:
    """The rows of each cause, and whether they hold up all threads."""
    calls = trace.kind == EventKind.RUNTIME
    launches = np.zeros(len(trace), np.bool_)
    launches[trace.launch[trace.launch != MISSING]] = True
    memory = np.flatnonzero(trace.calls_that(*_MEMORY))
    first = sets_up(trace.dur_ns[memory])
    setup = np.concatenate((np.flatnonzero(trace.calls_that(CallRole.SETUP)), memory[first]))
    host = of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.PYTHON)
    named = trace.recorder.host
    # An operator inside of another one covers nothing more.
    outermost = of_kind(trace.kind, EventKind.OPERATOR, EventKind.RUNTIME)
    parent = trace.parent
    outermost &= (parent == MISSING) | (np.append(trace.kind, EventKind.UNKNOWN)[parent] == EventKind.MODULE)
    graph = trace.calls_that(CallRole.GRAPH)
    # The interpreter stands still while it collects; what the profiler costs is recorded on a track of its own.
    return {
        Cause.PROFILER: (np.flatnonzero(trace.kind == EventKind.OVERHEAD), True),
        Cause.GARBAGE_COLLECTION: (np.flatnonzero(host & _named(trace, named.collecting)), True),
        Cause.COMPILATION: (np.flatnonzero(host & _named(trace, named.compiling)), False),
        Cause.INITIALISATION: (np.sort(setup), False),
        Cause.DRIVER_MEMORY: (memory[~first], False),
        Cause.SYNCHRONISATION: (np.flatnonzero(calls & waits_for_device(trace)), False),
        Cause.INPUT: (np.flatnonzero(host & _named(trace, f"^(?s:{DATALOADER.pattern})")), False),
        Cause.GRAPH: (np.flatnonzero(graph), False),
        Cause.LAUNCH: (np.flatnonzero(calls & launches & ~graph), False),
        Cause.DISPATCH: (np.flatnonzero(outermost), False),
    }


def _named(trace: TraceTable, pattern: str) -> Bool:
    """Which rows have a name that an expression of RE2 finds; "" finds none."""
    if not pattern:
        return np.zeros(len(trace), np.bool_)
    hit = pc.match_substring_regex(trace.strings.array, pattern)
    flags = pc.fill_null(hit, False).to_numpy(zero_copy_only=False)
    found: Bool = np.append(flags, False)[trace.name]
    return found
