"""Idle time by cause, exact to the nanosecond.

During an idle gap, no stream of the device runs work. Unrecorded work counts as running. The causes of a gap depend
on the work that ends the gap. In order of time, the causes are the activity of the launching thread before the
launch, the launch call, and the latency until the work starts.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.busy_intervals import covered_work, device_busy
from tb_plugin.analysis.idle.causes import HOST, Cause
from tb_plugin.analysis.idle.host import delaying_ranges, is_host_recorded, launching_threads, silent_ranges, span_of
from tb_plugin.analysis.launches.phases import launch_phases, usual_latency
from tb_plugin.analysis.launches.recorded import Launches
from tb_plugin.analysis.launches.unrecorded_work import device_occupied
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import EMPTY, Ranges, first_in, intersect, measure_within, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable


class Gaps(msgspec.Struct, frozen=True, eq=False):
    """Idle gaps of a device by time. ``next`` is the row of the work after each gap (-1 = none)."""

    start_ns: Int64
    end_ns: Int64
    next: Int64


class Account(msgspec.Struct, frozen=True, eq=False):
    """Idle time of one device, in segments sorted by time. The segments cover all idle gaps exactly."""

    gaps: Gaps
    start_ns: Int64
    end_ns: Int64
    cause: Int64
    gap: Int64

    def by_cause(self, start: Int64, end: Int64) -> dict[Cause, Int64]:
        """Returns the idle time by cause in each window ``[start[i], end[i])``."""
        found = {}
        for cause in Cause:
            mine = self.cause == cause
            found[cause] = measure_within(Ranges(self.start_ns[mine], self.end_ns[mine]), start, end)
        return found


def work_span(trace: TraceTable, device: int) -> tuple[int, int]:
    """Returns the start of a device's first work and the end of its last work; (0, 0) if the device has no work."""
    busy = device_busy(trace).get(device, EMPTY)
    return (int(busy.start[0]), int(busy.end[-1])) if len(busy) else (0, 0)


@cached_by_argument
def idle_account(trace: TraceTable, device: int) -> Account:
    """Returns the idle time of a device in the loaded recording. ``device`` is an index into ``trace.devices``."""
    gaps = _gaps(trace, device)
    launches = launch_phases(trace)
    at = np.searchsorted(launches.row, np.maximum(gaps.next, 0))
    at = (
        np.where((gaps.next != MISSING) & (launches.call[at] != MISSING), at, MISSING)
        if len(launches.row)
        else at * 0 - 1
    )
    call = np.where(at == MISSING, MISSING, launches.call[at]) if len(launches.row) else at
    # A gap without next work uses all launching threads until its end. Without a recorded launch, the thread is unknown.
    tail = gaps.next == MISSING
    returned = np.where(
        tail, gaps.end_ns, np.where(call == MISSING, gaps.start_ns, trace.ends(call) if len(trace) else call)
    )
    until = np.clip(returned, gaps.start_ns, gaps.end_ns)
    host = _host_pieces(trace, device, gaps, until, call)
    after = _after_launch(gaps, until, at, launches, usual_latency(trace, device), tail)
    start, end, cause = (np.concatenate(parts) for parts in zip(host, after, strict=True))
    order = np.argsort(start, kind="stable")
    start, end, cause = start[order], end[order], cause[order]
    gap = np.searchsorted(gaps.start_ns, start, side="right") - 1
    return Account(gaps, start, end, cause, gap)


def _gaps(trace: TraceTable, device: int) -> Gaps:
    rows = covered_work(trace)
    rows = rows[trace.device[rows] == device]
    # If several start at the same time, the first launched one counts. Row order is only file order.
    rows = rows[np.lexsort((trace.start_ns[trace.launch[rows]], trace.start_ns[rows]))]
    busy = device_occupied(trace).get(device, EMPTY)
    low, high = span_of(trace)
    begin = np.append(low, busy.end).astype(np.int64)
    end = np.append(busy.start, high).astype(np.int64)
    first = np.append(rows, MISSING)[np.searchsorted(trace.start_ns[rows], busy.start)]
    proper = begin < end
    return Gaps(begin[proper], end[proper], np.append(first, MISSING)[proper])


# Start, end and cause.
Pieces = tuple[Int64, Int64, Int64]


def _after_launch(
    gaps: Gaps, until: Int64, at: Int64, launches: Launches, limits: Int64, tail: npt.NDArray[np.bool_]
) -> Pieces:
    begin, end = until, gaps.end_ns
    unknown = (at == MISSING) & ~tail
    known = at != MISSING
    place = np.maximum(at, 0)
    if not len(launches.row):
        return _pieces((begin, end, np.where(unknown, Cause.NOT_RECORDED, Cause.PYTHON)))
    # The device is idle, so only an event can delay its next work.
    freed = np.clip(np.where(known, launches.free_ns[place], begin), begin, end)
    graph, queued = launches.is_graph[place], launches.is_queued[place] | (until == gaps.start_ns)
    kind = np.where(queued, Cause.KERNEL_LATENCY, np.where(graph, Cause.GRAPH, Cause.LAUNCH_LATENCY))
    usual_end = np.minimum(freed + limits[place], end)
    return _pieces(
        (begin[unknown], end[unknown], np.full(int(unknown.sum()), Cause.NOT_RECORDED)),
        (begin[known], freed[known], np.full(int(known.sum()), Cause.DEPENDENCY)),
        (freed[known], usual_end[known], kind[known]),
        (usual_end[known], end[known], np.full(int(known.sum()), Cause.UNEXPLAINED)),
    )


def _pieces(*parts: Pieces) -> Pieces:
    columns = list(zip(*parts, strict=True)) or [(np.empty(0, np.int64),)] * 3
    start, end, cause = (np.concatenate(column).astype(np.int64) for column in columns)
    proper = start < end
    return start[proper], end[proper], cause[proper]


def _host_pieces(trace: TraceTable, device: int, gaps: Gaps, until: Int64, call: Int64) -> Pieces:
    in_time = gaps.start_ns < until
    threads = launching_threads(trace, device)
    if not threads:
        return _pieces((gaps.start_ns[in_time], until[in_time], np.full(int(in_time.sum()), Cause.NOT_RECORDED)))
    # Gaps without a launch at the end use the thread with the most launches.
    of = np.where(call == MISSING, threads[0], np.append(trace.track, MISSING)[call])
    asking = np.unique(of[in_time]).tolist()
    doing = {thread: delaying_ranges(trace, thread) for thread in {*threads, *asking}}
    free = Cause.PYTHON if is_host_recorded(trace, doing) else Cause.NOT_RECORDED
    silent = silent_ranges(trace, device)
    parts: list[Pieces] = []
    for thread in asking:
        mine = in_time & (of == thread)
        when = union(gaps.start_ns[mine], until[mine])
        order = [thread, *(other for other in threads if other != thread)]
        every = ((cause, doing[each][cause]) for each in order for cause in HOST)
        sets = [(cause, intersect(ranges, when)) for cause, ranges in every if len(ranges)]
        if free == Cause.PYTHON and len(silent):
            sets.append((Cause.NOT_RECORDED, intersect(silent, when)))
        causes = [cause for cause, _ in sets]
        left = [*(ranges for _, ranges in sets), when]  # no activity: the thread runs Python
        for cause, ranges in zip([*causes, free], first_in(*left), strict=True):
            parts.append((ranges.start, ranges.end, np.full(len(ranges), cause)))
    return _pieces(*parts)
