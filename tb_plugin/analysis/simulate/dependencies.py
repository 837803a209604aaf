"""Delays of device work by launches, earlier work and waits."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.blocking_calls import asking_tracks, profiler_waits, waits_for_device
from tb_plugin.analysis.busy_intervals import covered_work, device_busy
from tb_plugin.analysis.launches.phases import QUEUE_FULL, launch_phases
from tb_plugin.analysis.launches.recorded import usual_latency_ns
from tb_plugin.analysis.launches.unrecorded_work import device_occupied, unrecorded_work
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.intervals import measure_within
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

# No bound: longer than any trace.
FREE = np.int64(1) << 60
# Clock difference of host and device: a wait may return this long before its work ends.
NEAR_NS = 20_000
# If there are more waits, the shortest ones keep their recorded duration.
MOST_WAITS = 20_000


class Queue(msgspec.Struct, frozen=True, eq=False):
    """Device events that delay later events, grouped by the waits of the host. Times are in nanoseconds.

    These are the events of the busiest stream, and events of other streams that start while the device is idle.
    """

    row: Int64
    start_ns: Int64
    launched_ns: Int64
    gap_ns: Int64
    """Idle time of the device before each event, if a late launch certainly caused this idle time."""
    most_gap_ns: Int64
    """Upper bound of ``gap_ns``. Time during which only other streams were busy is included."""
    slack_ns: Int64
    """Time by which each launch could be later without delaying the event; 0 if only it delayed the event."""
    returned_ns: Int64
    has_dependencies: Bool
    turn: Int64
    """Indices that divide the events into groups, at the waits of the host."""
    waits: Waits
    usual_ns: tuple[int, int]
    """Typical latency between two kernels, and typical latency of a launch."""
    device: int
    first_ns: int
    """End of earlier work on the device, or start of the steps on the host, whichever is later."""
    last_ns: int
    last_place: int
    """Index of the last event in the queue that starts at or before the device's last event (-1 = none)."""
    track: int


class Waits(msgspec.Struct, frozen=True, eq=False):
    """Calls in which the host waits for a device, sorted by end."""

    row: Int64
    start_ns: Int64
    end_ns: Int64
    own_ns: Int64
    """Duration of each wait, excluding delays by the profiler."""
    done_ns: Int64
    """End of the last work for which each call waited; a time far in the past if there is no such work."""
    place: Int64
    """Index in the queue of the last event that starts at or before the awaited work (-1 = none)."""


@cached_by_argument
def queue_of(trace: TraceTable, device: int, begin: int, end: int) -> Queue:
    """Returns the device events that were launched between ``begin`` and ``end``, and the delays of these events."""
    launches = launch_phases(trace)
    mine = trace.device[launches.row] == device
    at = np.flatnonzero(mine)
    at = at[np.lexsort((launches.row[at], trace.start_ns[launches.row[at]]))]
    row, call = launches.row[at], launches.call[at]
    start, stop = trace.start_ns[row], trace.ends(row)
    reach = np.maximum.accumulate(np.append(begin, stop))[:-1]
    idle = np.maximum(start - reach, 0) - measure_within(
        unrecorded_work(trace, device), np.minimum(reach, start), start
    )
    is_known = call != MISSING
    launched = np.where(is_known, trace.start_ns[call], start)
    # A call that waits for its own copy returns after it, so earlier work delayed the copy.
    waits = waits_for_device(trace)[call] & is_known
    returned = np.where(waits, launched, trace.ends(call))
    blocked = np.minimum(np.where(waits, reach, launches.free_ns[at]), start)
    is_held = np.where(waits, reach > launched, launches.is_queued[at])
    slack = np.where(is_held, np.maximum(blocked - returned, 0), 0)
    fresh = launches.latency_ns[at][is_known & ~launches.is_queued[at]]
    # The latency between queued work is not an effect of late launches. But work that starts as soon after its launch as on
    # an empty queue may still have waited for the launch.
    is_sure = is_held & (start - returned > usual_latency_ns(fresh))
    inside = (launched >= begin) & (launched < end)
    busiest = _busiest(trace, row[inside])
    # Other streams that ran while the busiest one was idle may have blocked nothing.
    behind = np.where(is_held, 0, _time_of_others(trace, device, row, trace.track[row] == busiest))
    gap, most = np.where(is_held, 0, idle), np.where(is_sure, 0, idle) + behind
    queued = launches.is_queued[at] & (launches.latency_ns[at] > 0)
    # Work of other streams counts only after an idle gap. Without a gap, it started on a busy device.
    chain = inside & ((idle > usual_latency_ns(launches.latency_ns[at][queued])) | (trace.track[row] == busiest))
    launching = median(fresh)
    # Without queued work, the latency between kernels is unknown: it is at most that of a launch.
    typical = (median(launches.latency_ns[at][queued]) if queued.any() else launching, launching)
    calls, awaited = device_waits(trace, device, begin, end)
    # Grouped by waits, because a wait delays all later launches.
    kept = np.flatnonzero(chain)
    number = np.searchsorted(calls.end_ns, launched[kept], side="right")
    kept = kept[np.argsort(number, kind="stable")]
    turn = np.searchsorted(np.sort(number), np.arange(len(calls.end_ns) + 2))
    place = place_of(start[kept], np.append(trace.start_ns, -FREE)[awaited])
    last = np.flatnonzero(inside)[np.argmax(stop[inside])] if inside.any() else 0
    return Queue(
        row[kept], start[kept], launched[kept], gap[kept], most[kept], slack[kept], returned[kept], is_known[kept], turn,
        replace(calls, place=place), typical, device,
        int(min(reach[kept[0]], start[kept[0]])) if len(kept) else begin, int(stop[last]) if inside.any() else begin,
        int(place_of(start[kept], start[last : last + 1])[0]) if inside.any() else MISSING, busiest,
    )  # fmt: skip


def _time_of_others(trace: TraceTable, device: int, row: Int64, mine: Bool) -> Int64:
    found = np.zeros(len(row), np.int64)
    start, stop = trace.start_ns[row[mine]], trace.ends(row[mine])
    if len(start):
        reach = np.maximum.accumulate(np.append(start[0], stop))[:-1]
        found[mine] = measure_within(device_busy(trace)[device], reach, start)
    return found


def idle_before(trace: TraceTable, device: int, when: Int64) -> Int64:
    """Returns, for each time, the length of the idle gap of a device that ends at this time; 0 if no gap ends then."""
    busy = device_occupied(trace)[device]
    place = np.searchsorted(busy.start, when)
    begins = np.append(busy.start, -FREE)[place] == when
    return np.where(begins & (place > 0), when - busy.end[place - 1], 0)


def median(values: Int64) -> int:
    return int(np.sort(values)[(len(values) - 1) // 2]) if len(values) else 0


def _busiest(trace: TraceTable, rows: Int64) -> int:
    if not len(rows):
        return MISSING
    tracks, of = np.unique(trace.track[rows], return_inverse=True)
    return int(tracks[np.argmax(np.bincount(of.ravel(), trace.dur_ns[rows]))])


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
    waits = np.union1d(waits, _full_queue_launches(trace, rows))
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
    return Waits(waits[longest], start, stop, own, np.append(ended, -FREE)[place], place), np.append(rows, MISSING)[
        place
    ]


def _full_queue_launches(trace: TraceTable, rows: Int64) -> Int64:
    rows = rows[np.argsort(trace.start_ns[rows], kind="stable")]
    call, first = np.unique(trace.launch[rows].astype(np.int64), return_index=True)
    if len(call) < QUEUE_FULL:
        return call[:0]
    start, stop = trace.start_ns[call], trace.ends(call)
    depth = np.searchsorted(np.sort(start), stop) - np.searchsorted(np.sort(trace.start_ns[rows[first]]), stop, "right")
    full = depth >= QUEUE_FULL
    found: Int64 = call[full & (stop - start > 2 * median((stop - start)[~full]))]
    return found


def place_of(start: Int64, when: Int64) -> Int64:
    """Returns the index of the last queue entry that starts at or before each time (-1 = none)."""
    order = np.argsort(start, kind="stable")
    found = np.searchsorted(start[order], when, side="right") - 1
    return np.append(order, MISSING)[found]
