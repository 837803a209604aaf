"""Unrecorded device work: work launched outside the recording."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from tb_plugin.analysis.blocking_calls import drains_device, waits_for_device
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.graphs.captures import captures
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.launches.recorded import LONG_AGO, Launches, recorded_launches, usual_latency_ns
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.intervals import EMPTY, Ranges, contains, join, measure_within, subtract, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, CallRole, EventKind
from tb_plugin.model.trace.steps.windows import PROFILER
from tb_plugin.model.trace.table import TraceTable

# A launch on an idle device takes tens of microseconds; a shorter wait proves nothing.
MIN_WAIT_NS = 1_000_000
# Slow launches of one recording are a few times the usual latency.
TIMES_USUAL = 10
# Work that starts this soon after other work may have waited for it.
NEAR_NS = 50_000
_LAUNCHING = (CallRole.LAUNCH, CallRole.GRAPH, CallRole.COPY, CallRole.SET)


class _Found(msgspec.Struct, frozen=True, eq=False):
    ranges: Ranges
    first: Bool
    """Mask over ``recorded_launches``.

    It selects the launches whose work is delayed by unrecorded work, which proves that unrecorded work exists.
    """


@cached_by_argument
def unrecorded_work(trace: TraceTable, device: int) -> Ranges:
    """Returns the time ranges in which a device runs only unrecorded work. ``device`` is an index into
    ``trace.devices``.

    Unrecorded work is inferred from delays that recorded work does not explain. For example, the first kernel of a
    stream starts unusually late after its launch, although the device runs nothing else. Or the host waits for the
    device before the first launch.
    """
    return _found(trace, device).ranges


@cached_by_argument
def device_occupied(trace: TraceTable) -> Mapping[int, Ranges]:
    """Returns, for each device, the ranges of recorded and unrecorded work. All other time is idle."""
    return {device: join(busy, unrecorded_work(trace, device)) for device, busy in device_busy(trace).items()}


@cached_by_argument
def any_unrecorded(trace: TraceTable) -> Ranges:
    """Returns the time ranges in which at least one device runs unrecorded work and no device runs recorded work."""
    found = [unrecorded_work(trace, device) for device in device_busy(trace)]
    return subtract(join(EMPTY, *found), join(EMPTY, *device_busy(trace).values()))


@cached_by_argument
def waits_for_unrecorded(trace: TraceTable) -> Bool:
    """Returns, for each entry of ``recorded_launches``, whether its work waits for unrecorded work."""
    launches = recorded_launches(trace)
    waits = np.zeros(len(launches.row), np.bool_)
    for device in device_busy(trace):
        found = _found(trace, device)
        if not len(found.ranges):
            continue
        fresh = _on_empty_queue(launches) & (trace.device[launches.row] == device)
        limit = usual_latency_ns(launches.latency_ns[fresh & ~found.first])
        waits |= found.first | (fresh & (launches.latency_ns > limit) & contains(found.ranges, launches.free_ns))
    return waits


def _on_empty_queue(launches: Launches) -> Bool:
    fresh: Bool = (launches.call != MISSING) & ~launches.is_queued
    return fresh


@cached_by_argument
def _found(trace: TraceTable, device: int) -> _Found:
    launches, busy = recorded_launches(trace), device_busy(trace).get(device, EMPTY)
    none = np.zeros(len(launches.row), np.bool_)
    if device == MISSING:  # unknown device: the rows may come from several devices
        return _Found(EMPTY, none)
    mine = np.flatnonzero((trace.device[launches.row] == device) & (launches.call != MISSING))
    mine = mine[np.argsort(trace.start_ns[launches.row[mine]], kind="stable")]
    began = _recording_began(trace)
    # A loaded window contains work that was launched before it. The cause of its delay is unknown.
    mine = mine[trace.start_ns[launches.call[mine]] >= began[0]]
    row, call = launches.row[mine], launches.call[mine]
    # A synchronous copy ends before its call returns.
    waits = (waits_for_device(trace) & trace.calls_that(CallRole.COPY))[call]
    free = np.where(waits, np.minimum(trace.start_ns[call], launches.free_ns[mine]), launches.free_ns[mine])
    start, fresh = trace.start_ns[row], ~launches.is_queued[mine]
    idle = start - free - measure_within(busy, free, start)
    part = np.searchsorted(began, trace.start_ns[call], side="right") - 1
    first = np.zeros(len(mine), np.bool_)
    first[np.unique(hardware_streams(trace).of[row].astype(np.int64) * len(began) + part, return_index=True)[1]] = True
    # The first work of a stream may wait, so it is no sample of the usual latency.
    limit = max(MIN_WAIT_NS, TIMES_USUAL * usual_latency_ns(idle[fresh & ~first & ~waits]))
    waited = np.flatnonzero(first & fresh & (idle > limit))
    # Any start on the device shows that it accepts launches.
    starts = np.sort(trace.start_ns[launches.row[trace.device[launches.row] == device]])
    waited = waited[np.searchsorted(starts, start[waited]) == np.searchsorted(starts, free[waited])]
    since, launched = began[part[waited]], trace.start_ns[call[waited]]
    # If work starts after the host has waited for the device, the device clock is ahead.
    proven = ~_follows_another(trace, device, row[waited]) & ~_is_drained(trace, device, since, start[waited])
    proven &= ~waits[waited] | ~_sets_up(trace, device, since, launched)
    waited, since = waited[proven], since[proven]
    since = _no_later_launch(trace, device, since, launched[proven])
    # A wait that covers less of that time is proof only if launches queue up after it.
    is_short = 2 * idle[waited] < start[waited] - since
    returned, begun = np.sort(trace.ends(call)), np.searchsorted(start, start[waited])
    piled = np.searchsorted(returned, start[waited], side="right") - begun > 1
    waited, since = waited[piled | ~is_short], np.where(is_short, free[waited], since)[piled | ~is_short]
    none[mine[waited]] = True
    found = join(union(since, start[waited]), _awaited_at_first(trace, device, began))
    return _Found(subtract(found, busy), none)


def _awaited_at_first(trace: TraceTable, device: int, began: Int64) -> Ranges:
    does_more = trace.calls_that(*_LAUNCHING, CallRole.ALLOCATE, CallRole.FREE, CallRole.PIN)
    waits = _own_calls(trace, device, waits_for_device(trace) & ~does_more)
    start, end = trace.start_ns[waits], trace.ends(waits)
    launches = np.sort(trace.start_ns[trace.calls_that(*_LAUNCHING) | _has_work(trace)])
    at = np.searchsorted(began, start, side="right") - 1
    since = began[np.maximum(at, 0)]
    first = np.searchsorted(launches, since) == np.searchsorted(launches, start)
    idle = end - start - measure_within(device_busy(trace).get(device, EMPTY), start, end)
    chosen = first & (at >= 0) & (idle > MIN_WAIT_NS) & ~_sets_up(trace, device, since, start)
    return union(np.where(2 * idle < end - since, start, since)[chosen], end[chosen])


def _sets_up(trace: TraceTable, device: int, since: Int64, until: Int64) -> Bool:
    calls = _own_calls(trace, device, trace.calls_that(CallRole.SETUP, CallRole.ALLOCATE, CallRole.MAP, CallRole.PIN))
    starts = np.sort(trace.start_ns[calls])
    found: Bool = np.searchsorted(starts, since) < np.searchsorted(starts, until)
    return found


def _recording_began(trace: TraceTable) -> Int64:
    """Returns when the recording started or resumed. Missing step numbers show a pause."""
    began, steps = np.array([trace.coverage.start_ns]), trace.steps
    if steps.source != PROFILER or not all(label.isdecimal() for label in steps.label):
        return began
    numbers = np.array([int(label[:18]) for label in steps.label], np.int64)
    after = np.flatnonzero(np.diff(numbers) > 1) + 1
    calls = np.sort(trace.start_ns[trace.kind == EventKind.RUNTIME])
    ended, begins = steps.host_end_ns[after - 1], steps.host_start_ns[after]
    silent = np.searchsorted(calls, ended) == np.searchsorted(calls, begins)
    return np.append(began, begins[silent])


def _follows_another(trace: TraceTable, device: int, rows: Int64) -> Bool:
    launches = recorded_launches(trace)
    others = (launches.call != MISSING) & (trace.device[launches.row] != device)
    row, call = launches.row[others], launches.call[others]
    order = np.argsort(trace.start_ns[call], kind="stable")
    row, call = row[order], call[order]
    found = np.zeros(len(rows), np.bool_)
    own = trace.launch[rows]
    for track in np.unique(trace.track[own]).tolist():
        asked, theirs = np.flatnonzero(trace.track[own] == track), trace.track[call] == track
        reach = np.maximum.accumulate(np.append(LONG_AGO, trace.ends(row[theirs])))
        before = reach[np.searchsorted(trace.start_ns[call[theirs]], trace.start_ns[own[asked]])]
        start = trace.start_ns[rows[asked]]
        found[asked] = (before <= start) & (before >= start - NEAR_NS)
    return found


def _own_calls(trace: TraceTable, device: int, wanted: Bool) -> Int64:
    launches = recorded_launches(trace)
    known = launches.call != MISSING
    track, of = trace.track[launches.call[known]], trace.device[launches.row[known]]
    own = np.setdiff1d(track[of == device], track[of != device])
    return np.flatnonzero(wanted & (trace.kind == EventKind.RUNTIME) & np.isin(trace.track, own))


def _has_work(trace: TraceTable) -> Bool:
    found = np.zeros(len(trace), np.bool_)
    found[trace.launch[trace.launch != MISSING]] = True
    return found


def _is_drained(trace: TraceTable, device: int, since: Int64, until: Int64) -> Bool:
    ends = np.sort(trace.ends(_own_calls(trace, device, drains_device(trace))))
    found: Bool = np.searchsorted(ends, since, side="right") < np.searchsorted(ends, until, side="right")
    return found


def _no_later_launch(trace: TraceTable, device: int, since: Int64, until: Int64) -> Int64:
    lost = _own_calls(trace, device, trace.calls_that(CallRole.LAUNCH, CallRole.GRAPH) & ~_has_work(trace))
    lost = np.setdiff1d(lost, captures(trace).source)  # captured work does not run
    begins = np.append(np.sort(trace.start_ns[lost]), np.iinfo(np.int64).max)
    first = begins[np.searchsorted(begins, since)]
    return np.where(first < until, first, since)
