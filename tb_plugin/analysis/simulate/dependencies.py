"""Waits of the host for a device."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.blocking_calls import asking_tracks, profiler_waits, waits_for_device
from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.launches.phases import QUEUE_FULL
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import EMPTY, Ranges, join, measure_within, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

# No bound: longer than any trace.
FREE = np.int64(1) << 60
# Clock difference of host and device: a wait may return this long before its work ends.
NEAR_NS = 20_000
# If there are more waits, the shortest ones keep their recorded duration.
MOST_WAITS = 20_000


class Waits(msgspec.Struct, frozen=True, eq=False):
    """Calls in which the host waits for a device, sorted by end."""

    row: Int64
    start_ns: Int64
    end_ns: Int64
    own_ns: Int64
    """Duration of each wait, excluding delays by the profiler; ``FREE`` for a launch into a full queue: without it, the
    next launch would wait.
    """
    done_ns: Int64
    """End of the wait: when the last work for which each call waited ends, or when it leaves the queue; a time far in
    the past if there is no such work.
    """


def median(values: Int64) -> int:
    return int(np.sort(values)[(len(values) - 1) // 2]) if len(values) else 0


@cached_by_argument
def device_waits(trace: TraceTable, device: int, begin: int, end: int) -> tuple[Waits, Int64]:
    """Returns the waits of the threads that launch or request work on a device, and the row for which each call
    waited (-1 = none).
    """
    rows = covered_work(trace)
    rows = rows[trace.device[rows] == device]
    rows = rows[trace.launch[rows] != MISSING]
    ended = trace.ends(rows)
    order = np.argsort(ended, kind="stable")
    rows, ended = rows[order], ended[order]
    call = trace.launch[rows]
    threads = np.unique(asking_tracks(trace, rows))
    waits = np.flatnonzero(waits_for_device(trace) & (trace.kind == EventKind.RUNTIME) & np.isin(trace.track, threads))
    full, full_until = full_queue_waits(trace, device)
    waits = np.union1d(waits, full)
    start, stop = trace.start_ns[waits], trace.ends(waits)
    inside = (start >= begin) & (stop <= end)
    longest = np.lexsort((start, -(stop - start), ~inside))[: min(int(inside.sum()), MOST_WAITS)]
    longest = longest[np.lexsort((start[longest], stop[longest]))]
    start, stop = start[longest], stop[longest]
    launched = np.append(trace.start_ns[call], FREE)
    place = np.searchsorted(ended, stop + NEAR_NS, side="right") - 1
    for _ in range(8):  # work that another thread launched meanwhile is not awaited
        place = np.where((place >= 0) & (launched[place] > start), place - 1, place)
    place = np.where((place >= 0) & (launched[place] <= start), place, MISSING)
    if len(call):  # a call that waits for its own work
        by_call = np.argsort(call, kind="stable")
        last = by_call[np.searchsorted(call[by_call], waits[longest], side="right") - 1]
        place = np.where((call[last] == waits[longest]) & (ended[last] <= stop + NEAR_NS), last, place)
    own = stop - start - measure_within(profiler_waits(trace), start, stop)
    done = np.append(ended, -FREE)[place]
    _, of_queue, at = np.intersect1d(waits[longest], full, assume_unique=True, return_indices=True)
    own[of_queue], done[of_queue] = FREE, np.where(place[of_queue] >= 0, full_until[at], -FREE)
    found = Waits(waits[longest], start, stop, own, done)
    return found, np.append(rows, MISSING)[place]


def last_of_streams(calls: Int64, done: Int64, stream: Int64, launched: Int64, stop: Int64) -> Int64:
    """Returns the last work of each stream that was launched before each of the ``calls`` and ended until ``done``.

    The result has the shape (calls, streams) and contains indices of the work (-1 = none).
    """
    found = np.full((len(calls), int(stream.max(initial=-1)) + 1), MISSING, np.int64)
    for each in range(found.shape[1]):
        theirs = np.flatnonzero(stream == each)
        theirs = theirs[np.argsort(stop[theirs], kind="stable")]
        place = np.searchsorted(stop[theirs], done, side="right") - 1
        for _ in range(4):  # work that another thread launched meanwhile is not awaited
            place = np.where((place >= 0) & (launched[theirs[place]] > calls), place - 1, place)
        fits = (place >= 0) & (launched[theirs[place]] <= calls)
        found[fits, each] = theirs[place[fits]]
    return found


@cached_by_argument
def full_queue_waits(trace: TraceTable, device: int) -> tuple[Int64, Int64]:
    """Returns the launch calls that wait because the queue of the device is full, and the end of each wait."""
    rows = covered_work(trace)
    rows = rows[(trace.device[rows] == device) & (trace.launch[rows] != MISSING)]
    rows = rows[np.argsort(trace.start_ns[rows], kind="stable")]
    call, first = np.unique(trace.launch[rows].astype(np.int64), return_index=True)
    if len(call) < QUEUE_FULL:
        return call[:0], call[:0]
    start, stop = trace.start_ns[call], trace.ends(call)
    depth = np.searchsorted(np.sort(start), stop) - np.searchsorted(np.sort(trace.start_ns[rows[first]]), stop, "right")
    is_full = depth >= QUEUE_FULL
    # A waiting call takes much longer than usual. After the wait, it takes as long as a usual launch.
    usual = median((stop - start)[~is_full])
    is_full &= stop - start > 2 * usual
    return call[is_full], stop[is_full] - usual


@cached_by_argument
def full_queue_time(trace: TraceTable) -> Ranges:
    """Returns the time in which launch calls wait because the queue of a device is full."""
    found = [EMPTY]
    for device in np.unique(trace.device[covered_work(trace)]).tolist():
        calls, until = full_queue_waits(trace, device)
        found.append(union(trace.start_ns[calls], until))
    return join(*found)
