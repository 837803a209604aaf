"""Replay of all streams of a device in their recorded order.

Work starts when its launch has arrived, when its stream is free, and when work of other streams that it waits for has
ended. A trace does not contain all of these waits. Work waits for another stream if it started when that work ended,
or if the host made the stream wait before the launch.

The replay computes leads: how much earlier each event is than in the recording. The slack of a dependency is how much
later it could end in the recording without delaying the work. The dependency that delayed the work has no slack.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.blocking_calls import profiler_waits, waits_for_device
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.launches.phases import launch_phases
from tb_plugin.analysis.launches.recorded import usual_latency_ns
from tb_plugin.analysis.launches.unrecorded_work import unrecorded_work
from tb_plugin.analysis.simulate.change import Assumption, Change
from tb_plugin.analysis.simulate.dependencies import FREE, Waits, device_waits, full_queue_time, last_of_streams, median
from tb_plugin.analysis.simulate.stream_waits import stream_waits
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import places_of
from tb_plugin.lib.intervals import Ranges, measure_within, subtract
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import Steps, TraceTable

# Work that starts this soon after work of another stream may have waited for it, even if usual latencies are shorter.
MIN_NEAR_NS = 5_000
# Usual time from launch to start, if no launch of the trace shows it. A lower bound assumes at least twice this time.
USUAL_LAUNCH_NS = 5_000
MIN_LAUNCHES = 4
# Work replayed at once.
_WORK_PER_BATCH = 4096
# Waits of one stream for another that are replayed. Above this number, those with the least slack are.
MOST_JOINS = 20_000


class Leads(msgspec.Struct, frozen=True, eq=False):
    """Nanoseconds by which host and device finish earlier, with shape (pairs of initial leads, changes)."""

    host: Int64
    device: Int64


ON_TIME = ((0, 0),)
# Leads of host and device at the start. A very early side delays nothing, which isolates the effect of the other.
EITHER_EARLY = ((0, int(FREE)), (int(FREE), 0))


class Streams(msgspec.Struct, frozen=True, eq=False):
    """Work of one device, sorted by host wait, stream and start. Times are in nanoseconds."""

    row: Int64
    stream: Int64
    start_ns: Int64
    end_ns: Int64
    launched_ns: Int64
    arrived_ns: Int64
    """Latest host time at which the launch may reach the device."""
    launch_slack_ns: Int64
    """Slack of the launch; ``FREE`` without a recorded launch."""
    previous_slack_ns: Int64
    """Slack of the previous work on the stream."""
    is_idle: Bool
    """Whether neither launch nor previous work explains the start."""
    gap_ns: Int64
    """Part of the idle time before the start that disappears with the work."""
    turn: Int64
    """First index of each stream after each host wait, with shape (waits + 1, streams + 1)."""
    join: Int64
    """Indices of work that waits for another stream."""
    source: Int64
    """Index of the work that each ``join`` waits for."""
    join_ns: Int64
    """Slack of each ``join``."""
    waits: Waits
    awaited: Int64
    """Index of the work that each host wait waits for (-1 = none), with shape (waits, work)."""
    awaited_slack_ns: Int64
    """Slack of each ``awaited``."""
    first_ns: int
    last_ns: int


@cached_by_argument
def streams_of(trace: TraceTable, device: int, begin: int, end: int, assume: Assumption) -> Streams:
    """Returns the work of a device that was launched between ``begin`` and ``end``, and its dependencies."""
    launches = launch_phases(trace)
    calls, awaited_row = device_waits(trace, device, begin, end)
    at = np.flatnonzero(trace.device[launches.row] == device)
    row, call = launches.row[at], launches.call[at]
    start, stop = trace.start_ns[row], trace.ends(row)
    _, stream = np.unique(hardware_streams(trace).of[row], return_inverse=True)
    launched = np.where(call != MISSING, trace.start_ns[call], start)
    # Before the first work of a stream, the stream is taken to be busy until the start of the steps.
    free_ns = np.maximum(np.append(stop, begin)[_previous(stream, start)], begin)
    number = np.searchsorted(calls.end_ns, launched, side="right")
    order = np.lexsort((stop, start, stream, number))
    order = order[(launched[order] >= begin) & (launched[order] < end)]
    reach = int(stop[launched < begin].max(initial=begin))
    at, row, call, start, stop, stream, launched, free_ns, number = (
        each[order] for each in (at, row, call, start, stop, stream, launched, free_ns, number)
    )
    _, stream = np.unique(stream, return_inverse=True)
    is_known = call != MISSING
    # A call that waits for its own work returns after it.
    waits = waits_for_device(trace)[call] & is_known
    arrived = np.where(waits | ~is_known, launched, np.minimum(trace.ends(call), start))
    # Work of another stream that ended after the launch and the previous work may have delayed the start.
    ends = np.sort(stop)
    latest = np.append(ends, -FREE)[np.searchsorted(ends, start, side="right") - 1]
    latency = launches.latency_ns[at]
    queued = latency[launches.is_queued[at] & (latest <= free_ns) & (latency > 0)]
    fresh, is_fresh = start - arrived, (latest <= arrived) & is_known & ~launches.is_queued[at]
    usual, long = _launch_times(fresh[is_fresh & ~waits], USUAL_LAUNCH_NS)
    usual_wait, long_wait = _launch_times(fresh[is_fresh & waits], 2 * USUAL_LAUNCH_NS)
    between = median(queued) if len(queued) else min(usual, USUAL_LAUNCH_NS)
    launching = np.where(waits, usual_wait, usual)
    late = np.where(is_known, np.maximum(start - arrived, 0), FREE)
    gap = np.maximum(start - free_ns, 0)
    gap -= measure_within(unrecorded_work(trace, device), np.minimum(free_ns, start), start)
    near = max(usual_latency_ns(queued), MIN_NEAR_NS)
    is_idle = np.minimum(late - launching, gap - between) > near
    join, source, is_stated = stream_waits(trace, row, stream, launched, is_idle, near, assume)
    # The host prepares a copy that it waits for, so the idle time before it is no wait of its stream.
    is_idle &= ~waits
    joined = np.maximum(start[join] - stop[source], 0)
    # The dependency with the least slack delayed the work, even if its latency is unusual.
    least = np.minimum(late - launching, gap - between)
    np.minimum.at(least, join[is_stated], joined[is_stated] - between)
    binds = [late - launching <= least, gap - between <= least, (joined - between <= least[join]) & is_stated]
    if assume == Assumption.LOW:
        between, launching = max(usual_latency_ns(queued), between), np.where(waits, long_wait, long)
    elif assume >= Assumption.HIGH:
        between, launching = 0, np.zeros_like(launching)
    free = (np.where(side >= FREE // 2, FREE, np.where(held, 0, np.maximum(side - usual, 0)))
            for side, held, usual in zip((late, gap, joined), binds, (launching, between, between), strict=True))  # fmt: skip
    late, previous, join_ns = free
    gap_ns = np.where(is_idle, 0, gap - previous)
    np.maximum.at(gap_ns, join, joined - join_ns)
    if assume >= Assumption.HIGH:
        join, source, join_ns = join[binds[2]], source[binds[2]], join_ns[binds[2]]
    if len(join) > MOST_JOINS:
        most = np.argsort(join_ns, kind="stable")[:MOST_JOINS]
        join, source, join_ns = join[most], source[most], join_ns[most]
    streams = int(stream.max(initial=-1)) + 1
    awaited = places_of(row, len(trace))[awaited_row][:, None]
    awaited_slack = np.maximum(calls.start_ns - calls.done_ns, 0)[:, None]
    if assume == Assumption.LOW and streams > 1:
        last = last_of_streams(calls.start_ns, calls.done_ns, stream, launched, stop)
        reached = np.maximum(calls.done_ns, calls.start_ns)[:, None]
        awaited = np.append(awaited, last, axis=1)
        awaited_slack = np.append(awaited_slack, np.where(last == MISSING, FREE, reached - stop[last]), axis=1)
    return Streams(
        row, stream, start, stop, launched, arrived, late, previous, is_idle, gap_ns,
        np.searchsorted(number * streams + stream, np.arange((len(calls.end_ns) + 1) * streams + 1)),
        join, source, join_ns, calls, awaited, awaited_slack,
        min(reach, int(start.min(initial=end))), int(stop.max(initial=begin)),
    )  # fmt: skip


def _launch_times(samples: Int64, usual_ns: int) -> tuple[int, int]:
    """Returns a usual and a long time from launch to start, from launches that an idle device waited for."""
    if len(samples) < MIN_LAUNCHES:  # the device may have been busy with unrecorded work
        samples = np.minimum(samples, 4 * usual_ns)
    return median(samples) if len(samples) else usual_ns, max(usual_latency_ns(samples), 2 * usual_ns)


def _previous(stream: Int64, start: Int64) -> Int64:
    """Returns the index of the previous work on the same stream (-1 = none)."""
    order = np.lexsort((start, stream))
    found = np.empty(len(order), np.int64)
    found[order] = np.where(np.append(True, np.diff(stream[order]) != 0)[: len(order)], -1, np.append(-1, order[:-1]))
    return found


class HostLeads:
    """For each change, the reductions of host time before each wait, and before the end.

    ``is_gone`` marks the waits of which a change removes at least half. Time blocked by the profiler is not
    counted.
    """

    def __init__(self, waits: Waits, changes: Sequence[Change], steps: Steps, held: Ranges) -> None:
        self.at_wait = np.stack([change.host_before(waits.end_ns) for change in changes])
        own = [replace(change, host=subtract(change.host, held)) for change in changes]
        within = np.stack([each.host_before(waits.end_ns) - each.host_before(waits.start_ns) for each in own])
        self.is_gone = (2 * within >= waits.own_ns) & (within > 0)
        end = steps.host_end_ns[-1:]
        self.at_end = np.array([change.host_before(end)[0] for change in changes], np.int64)


class Scenarios(msgspec.Struct, frozen=True, eq=False):
    """Work of one device, and the effects of changes. All fields except ``work`` have one row per change."""

    work: Streams
    less_ns: Int64
    """Reduction of each work, with an additional last element."""
    limit_ns: Int64
    """Lead of each work if only its launch delayed it, less the lead that the host gains by shorter waits."""
    at_wait_ns: Int64
    """Host time that disappears before each host wait ends."""
    is_gone: Bool
    """Whether each host wait disappears."""
    at_end_ns: Int64
    """Host time that disappears before the end."""


def scenarios_of(
    assume: Assumption, trace: TraceTable, streams: Streams, changes: Sequence[Change], steps: Steps
) -> Scenarios:
    # If a blocked launch is removed, the next launch blocks instead. Only shorter device work shortens this time.
    changes = [change.without(full_queue_time(trace)) for change in changes]
    host = HostLeads(streams.waits, changes, steps, profiler_waits(trace))
    limit = np.stack([_arrival_leads(assume, streams, change) for change in changes])
    limit += streams.launch_slack_ns
    less = np.zeros((len(changes), len(streams.row) + 1), np.int64)
    order = np.argsort(streams.row, kind="stable")
    sorted_rows = streams.row[order]
    duration = streams.end_ns - streams.start_ns
    for change, its_less, its_limit in zip(changes, less, limit, strict=True):
        found = np.searchsorted(sorted_rows, change.row)
        inside = np.append(sorted_rows, MISSING)[found] == change.row
        place, wanted = order[found[inside]], change.less_ns[inside]
        gone = place[wanted >= duration[place]]
        its_less[place] = wanted
        if assume > Assumption.LOW:
            its_less[gone] += streams.gap_ns[gone]
            its_limit[gone[~streams.is_idle[gone]]] = FREE
    return Scenarios(streams, less, limit, host.at_wait, host.is_gone, host.at_end)


def stream_leads(
    assume: Assumption,
    trace: TraceTable,
    streams: Streams,
    changes: Sequence[Change],
    steps: Steps,
    begins: tuple[tuple[int, int], ...],
) -> Leads:
    """Returns the leads of each change. ``begins`` contains (host, device) pairs of initial leads."""
    replay = replayed(scenarios_of(assume, trace, streams, changes, steps), begins)
    while True:
        try:
            next(replay)
        except StopIteration as done:
            leads: Leads = done.value
            return leads


def _arrival_leads(assume: Assumption, streams: Streams, change: Change) -> Int64:
    """Returns the lead of the host at each launch. The launch may leave the host at any time during its call."""
    if assume == Assumption.EXPECTED or change.is_faster:
        return change.host_before(streams.launched_ns if assume == Assumption.LOW else streams.arrived_ns)
    found: Int64 = (np.minimum if assume == Assumption.LOW else np.maximum)(
        change.host_before(streams.arrived_ns), change.host_before(streams.launched_ns)
    )
    return found


class CollectiveEdge(NamedTuple):
    """Start or end of work that other ranks take part in, and its lead there without other ranks."""

    work: int
    is_end: bool
    lead_ns: Int64


def replayed(
    scenarios: Scenarios, begins: tuple[tuple[int, int], ...], shared: Sequence[int] = ()
) -> Generator[CollectiveEdge, Int64 | None, Leads]:
    """Replays the work of a device, and returns the leads at the end.

    Yields the start and the end of the work ``shared``. After the end, the caller sends the lead of the end. Leads have
    the shape (pairs of initial leads, changes).
    """
    streams, less = scenarios.work, scenarios.less_ns
    waits, count = streams.waits, int(streams.stream.max(initial=-1)) + 1
    host_lead, device_lead = (
        np.repeat(np.array(side)[:, None], len(less), axis=1) for side in zip(*begins, strict=True)
    )
    # Leads of work that other work or the host waits for; the last one is the initial lead.
    needed = _needed(streams, shared, count)
    position = places_of(needed, len(streams.row))
    lead = np.repeat(device_lead[:, :, None], len(needed) + 1, axis=2)
    # Upper bound of the lead of the next work on each stream, from work of other streams.
    joined: list[Int64 | None] = [None] * count
    reached = [device_lead] * count
    at = [0] * count
    waited = np.clip(waits.done_ns - waits.start_ns, 0, waits.end_ns - waits.start_ns)

    def advance(stream: int, until: int) -> None:
        for begin in range(at[stream], until, _WORK_PER_BATCH):
            end = min(begin + _WORK_PER_BATCH, until)
            total = np.zeros((len(less), end - begin), np.int64)
            total[:, 1:] = less[:, begin : end - 1]
            total += streams.previous_slack_ns[begin:end]
            total.cumsum(axis=1, out=total)
            bound = scenarios.limit_ns[:, begin:end] + host_lead[:, :, None]
            if (least := joined[stream]) is not None:
                bound[:, :, 0], joined[stream] = np.minimum(bound[:, :, 0], least), None
            bound -= total
            np.minimum.accumulate(bound, axis=2, out=bound)
            np.minimum(bound, reached[stream][:, :, None], out=bound)
            bound += total + less[:, begin:end]
            low, high = np.searchsorted(needed, (begin, end))
            lead[:, :, low:high] = bound[:, :, needed[low:high] - begin]
            reached[stream] = bound[:, :, -1]
        at[stream] = max(at[stream], until)

    events, first_of_turn = _events(streams, np.array(shared, np.int64), count)
    for turn in range(len(waits.end_ns) + 1):
        begins_of, ends_of = streams.turn[turn * count : (turn + 1) * count], streams.turn[turn * count + 1 :][:count]
        at[:] = begins_of.tolist()
        for what, target, source, slack in events[first_of_turn[turn] : first_of_turn[turn + 1]].tolist():
            stream = int(streams.stream[target])
            if what == _JOIN:
                if source >= begins_of[0]:
                    advance(int(streams.stream[source]), source + 1)
                advance(stream, target)
                bound, least = lead[:, :, position[source]] + slack, joined[stream]
                joined[stream] = bound if least is None else np.minimum(bound, least)
            elif what == _START:
                advance(stream, target + 1)
                yield CollectiveEdge(target, False, lead[:, :, position[target]] - less[:, target])
            else:
                sent = yield CollectiveEdge(target, True, lead[:, :, position[target]])
                if sent is not None:
                    lead[:, :, position[target]] = sent
                    reached[stream] = sent if at[stream] == target + 1 else reached[stream]
        for stream, until in enumerate(ends_of.tolist()):
            advance(stream, until)
        if turn < len(waits.end_ns):
            now = host_lead + scenarios.at_wait_ns[:, turn]
            there = (lead[:, :, position[streams.awaited[turn]]] + streams.awaited_slack_ns[turn]).min(axis=2)
            least = np.where(scenarios.is_gone[:, turn], now, np.minimum(now + waited[turn], there))
            host_lead = host_lead + least - now
    ends = [streams.end_ns[row] - lead[:, :, position[row]] for row in _last_of_streams(streams, count)]
    last = np.max(ends, axis=0) if ends else np.full(host_lead.shape, streams.last_ns)
    return Leads(host_lead + scenarios.at_end_ns, streams.last_ns - last)


def _last_of_streams(streams: Streams, count: int) -> list[int]:
    return [int(np.flatnonzero(streams.stream == each)[-1]) for each in range(count)]


def _needed(streams: Streams, shared: Sequence[int], count: int) -> Int64:
    """Returns the work whose lead is used later."""
    found = np.concatenate((streams.source, streams.awaited.ravel(), shared, _last_of_streams(streams, count))).astype(
        np.int64
    )
    return np.unique(found[found >= 0])


_END, _JOIN, _START = range(3)


def _events(streams: Streams, shared: Int64, count: int) -> tuple[Int64, Int64]:
    """Returns rows of kind, work, awaited work and slack, in the order of the replay, and the first row of each turn."""
    kind = np.repeat([_END, _JOIN, _START], [len(shared), len(streams.join), len(shared)])
    work, none = np.concatenate((shared, streams.join, shared)), np.zeros(len(shared), np.int64)
    time = np.concatenate((streams.end_ns[shared], streams.start_ns[streams.join], streams.start_ns[shared]))
    rows = np.stack(
        (kind, work, np.concatenate((none, streams.source, none)), np.concatenate((none, streams.join_ns, none))),
        axis=1,
    )
    turn = np.searchsorted(streams.turn[::count] if count else streams.turn, work, side="right") - 1
    order = np.lexsort((kind, time, turn))
    turns = len(streams.waits.end_ns) + 1
    return rows[order], np.searchsorted(turn[order], np.arange(turns + 1))
