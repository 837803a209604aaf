"""Recorded launches, as if there were no unrecorded work."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import stable_order
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, CallRole, EventKind
from tb_plugin.model.trace.table import TraceTable

LONG_AGO = np.iinfo(np.int64).min
# Name prefix of a recorded wait of one stream for another.
STREAM_WAIT = "Stream Wait"


class Launches(msgspec.Struct, frozen=True, eq=False):
    """Device work and its launches, sorted by row. Times are in nanoseconds."""

    row: Int64
    call: Int64
    """Row of the launch call. If the value is -1 (not recorded), the values in the other columns are meaningless."""
    free_ns: Int64
    """Earliest possible start of the work.

    At this time, its launch call has returned, and all earlier work on its stream and on awaited streams has ended.
    """
    queue_ns: Int64
    """Time from the end of the launch call until ``free_ns``."""
    latency_ns: Int64
    """Time from ``free_ns`` to the start of the work."""
    is_queued: Bool
    """Whether earlier work was still running or queued when the launch call returned."""
    is_graph: Bool


@cached_by_argument
def recorded_launches(trace: TraceTable) -> Launches:
    """Returns the phases of all device work, as if there were no unrecorded work.

    In a CUDA graph, all work after the first node counts as queued, because the device schedules this work.
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
    """Returns, for each row, the latest end of earlier work on the same stream; ``LONG_AGO`` if there is no earlier
    work.
    """
    order = np.lexsort((start, track))
    of, begin, stop = track[order], start[order], end[order]
    # Latest end so far per stream: a running maximum of ranks, which increase with the stream number.
    by_end = np.lexsort((stop, of))
    place = np.empty(len(order), np.int64)
    place[by_end] = np.arange(len(order))
    reach = stop[by_end][np.maximum.accumulate(place)] if len(order) else stop
    fresh = np.append(True, of[1:] != of[:-1])[: len(order)]
    later = np.append(True, begin[1:] != begin[:-1])[: len(order)]
    # Work that starts at the same time follows the same earlier work.
    first = np.maximum.accumulate(np.where(fresh | later, np.arange(len(order)), 0))
    found = np.empty(len(order), np.int64)
    found[order] = np.where(fresh[first], LONG_AGO, np.append(reach, LONG_AGO)[first - 1])
    return found


def _awaited(trace: TraceTable, rows: Int64, start: Int64) -> Int64:
    """Returns the end of the stream wait that delays each row; ``LONG_AGO`` if no wait delays the row.

    The wait must have been requested before the row was launched. This order is determined from correlation ids or,
    if these are missing, from start times on the stream.
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


def usual_latency_ns(latency_ns: Int64) -> int:
    """Returns the limit above which a latency is unusual: the median plus 8 median absolute deviations; 0 if there
    are no samples.
    """
    if not len(latency_ns):
        return 0
    median = int(np.sort(latency_ns)[(len(latency_ns) - 1) // 2])
    return median + 8 * int(np.sort(np.abs(latency_ns - median))[(len(latency_ns) - 1) // 2])
