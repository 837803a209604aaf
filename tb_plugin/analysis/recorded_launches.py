"""Launches in three phases as recorded: the call, the queue time and the launch latency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.lib.groupby import stable_order
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import MISSING, CallRole, EventKind
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

LONG_AGO = np.iinfo(np.int64).min
STREAM_WAIT = "Stream Wait"
"""Begin of the name of a wait of one stream for another, as a device records it."""


@dataclass(frozen=True, eq=False)
class Launches:
    """Device work and how it was launched; columns by work, in order of ``row``. Nanoseconds."""

    row: Int64
    call: Int64
    """The row of its launch, -1 = not recorded: then the other columns mean nothing."""
    free_ns: Int64
    """When nothing was in its way any more: the launch had returned, its stream and what that waits for had ended."""
    queue_ns: Int64
    """From the end of the launch until earlier work of the stream had ended."""
    latency_ns: Int64
    """From ``free_ns`` to its begin."""
    is_queued: Bool
    """Earlier work of the stream was still running, or waiting, when the launch returned."""
    is_graph: Bool


@remembered
def recorded_launches(trace: TraceTable) -> Launches:
    """Returns how all covered device work was launched, as if the device ran recorded work only.

    A graph's work beyond the first of a launch follows what the device itself makes of the graph: it counts as queued.
    """
    rows = covered_work(trace)
    track, start = hardware_streams(trace).of[rows], trace.start_ns[rows]
    end = start + trace.dur_ns[rows]
    before = _ended_before(track, start, end)
    awaited = _awaited(trace, rows, start)
    call = trace.launch[rows].astype(np.int64)
    returned = trace.ends(call) if len(trace) else before
    is_graph = trace.calls_that(CallRole.GRAPH)[call] & (call != MISSING)
    blocked = np.minimum(np.maximum(before, awaited), start)
    is_queued = blocked >= returned
    free = np.minimum(np.maximum(returned, blocked), start)
    return Launches(rows, call, free, np.maximum(blocked, returned) - returned, start - free, is_queued, is_graph)


def _ended_before(track: Int32, start: Int64, end: Int64) -> Int64:
    """When all work that began earlier on the same stream had ended; long ago where there is none."""
    order = np.lexsort((start, track))
    of, begin, stop = track[order], start[order], end[order]
    # The latest end so far on a stream: a running maximum of places, which later streams hold the higher ones of.
    by_end = np.lexsort((stop, of))
    place = np.empty(len(order), np.int64)
    place[by_end] = np.arange(len(order))
    reach = stop[by_end][np.maximum.accumulate(place)] if len(order) else stop
    fresh = np.append(True, of[1:] != of[:-1])[: len(order)]
    later = np.append(True, begin[1:] != begin[:-1])[: len(order)]
    # Work that begins at once follows the same.
    first = np.maximum.accumulate(np.where(fresh | later, np.arange(len(order)), 0))
    found = np.empty(len(order), np.int64)
    found[order] = np.where(fresh[first], LONG_AGO, np.append(reach, LONG_AGO)[first - 1])
    return found


def _awaited(trace: TraceTable, rows: Int64, start: Int64) -> Int64:
    """Until when a wait for another stream holds each work up: one that was asked for before the work was launched.

    Calls are numbered in order; where a wait or work has no number, the one that begins on the stream first was first.
    """
    named = trace.strings.where(lambda text: text.startswith(STREAM_WAIT))[trace.name]
    waits = np.flatnonzero((trace.kind == EventKind.SYNC) & named)
    found = np.full(len(rows), LONG_AGO)
    streams = hardware_streams(trace).of
    for stream in np.unique(streams[waits]).tolist():
        mine = waits[streams[waits] == stream]
        work = np.flatnonzero(streams[rows] == stream)
        numbers, number = trace.correlation[mine], trace.correlation[rows[work]]
        by_number = number > 0
        for waiting, chosen, keys, at in (
            (mine[numbers > 0], work[by_number], numbers[numbers > 0], number[by_number]),
            (mine[numbers <= 0], work, trace.start_ns[mine[numbers <= 0]], start[work] + 1),
            (mine, work[~by_number], trace.start_ns[mine], start[work[~by_number]] + 1),
        ):
            order = stable_order(keys)
            reach = np.append(LONG_AGO, np.maximum.accumulate(trace.ends(waiting[order])))
            found[chosen] = np.maximum(found[chosen], reach[np.searchsorted(keys[order], at)])
    return found


def usual(latency_ns: Int64) -> int:
    """Returns up to where a latency is usual: the median and eight median absolute deviations; 0 of none."""
    if not len(latency_ns):
        return 0
    median = int(np.sort(latency_ns)[(len(latency_ns) - 1) // 2])
    return median + 8 * int(np.sort(np.abs(latency_ns - median))[(len(latency_ns) - 1) // 2])
