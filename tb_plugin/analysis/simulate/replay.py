"""Simulated replay of recorded steps.

The replay processes work in order, from one wait of the host to the next wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.blocking_calls import profiler_waits, waits_for_device
from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.simulate.change import Change
from tb_plugin.analysis.simulate.dependencies import FREE, Queue, Waits, idle_before
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import Ranges, contains, measure_within, subtract, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import Steps, TraceTable

# Work processed together.
_WORK_PER_BATCH = 4096


class Leads(msgspec.Struct, frozen=True, eq=False):
    """Nanoseconds by which host and device finish earlier, with shape (pairs of initial leads, changes)."""

    host: Int64
    device: Int64


ON_TIME = ((0, 0),)
# Leads of host and device at the start. A very early side delays nothing, which isolates the effect of the other.
EITHER_EARLY = ((0, int(FREE)), (int(FREE), 0))


def leads_of(
    careful: bool,
    trace: TraceTable,
    queue: Queue,
    changes: Sequence[Change],
    steps: Steps,
    begins: tuple[tuple[int, int], ...],
) -> Leads:
    """Returns the leads of each change. ``begins`` contains (host, device) pairs of initial leads."""
    between, launch = queue.usual_ns if careful else (0, 0)
    # An unknown launch may have waited for the host, or been queued long before.
    gap = np.where(queue.has_dependencies, np.maximum(queue.gap_ns - between, 0), 0) if careful else queue.most_gap_ns
    slack = np.where(queue.has_dependencies, np.maximum(queue.slack_ns - launch, 0), FREE if careful else 0)
    host = HostLeads(queue.waits, changes, steps, profiler_waits(trace))
    gone = [_Gone(trace, queue, change, careful) for change in changes]
    less = np.stack([each.until(queue.start_ns) for each in gone])
    growth: Int64 = np.diff(less, prepend=np.int64(0), axis=1)
    growth += gap
    limit = np.stack([change.host_before(queue.launched_ns) for change in changes])
    limit += slack
    if not careful:  # work that disappears with its call waits for no launch
        for change, each, bound in zip(changes, gone, limit, strict=True):
            gone_row = change.row[change.less_ns >= trace.dur_ns[change.row]]
            bound[np.isin(queue.row, gone_row) & contains(change.host, queue.launched_ns)] = FREE
            bound += np.maximum(each.may_have_delayed(queue) - slack, 0)
    after = _after(queue, [each.until for each in gone], queue.waits.place, queue.waits.done_ns)
    last = _after(
        queue, [each.until_exclusive for each in gone], np.array([queue.last_place]), np.array([queue.last_ns])
    )[:, 0]
    host_lead, lead = _run(queue, host, growth, limit, after, begins)
    return Leads(host_lead + host.at_end, lead + last)


def _run(
    queue: Queue, host: HostLeads, growth: Int64, limit: Int64, after: Int64, begins: tuple[tuple[int, int], ...]
) -> tuple[Int64, Int64]:
    """Returns the final leads of host and device, with shape (pairs of initial leads, changes).

    The lead of the host does not include the reduction of host time.
    """
    waits = queue.waits
    host_lead, device_lead = (
        np.repeat(np.array(side)[:, None], len(growth), axis=1) for side in zip(*begins, strict=True)
    )
    lead = np.empty((*host_lead.shape, len(queue.row) + 1), np.int64)
    lead[:, :, -1] = device_lead  # before all work
    waited = np.clip(waits.done_ns - waits.start_ns, 0, waits.end_ns - waits.start_ns)
    early = np.maximum(waits.start_ns - waits.done_ns, 0)
    for i in range(len(queue.turn) - 1):
        for begin in range(queue.turn[i], queue.turn[i + 1], _WORK_PER_BATCH):
            some = slice(begin, min(begin + _WORK_PER_BATCH, queue.turn[i + 1]))
            total = growth[:, some].cumsum(axis=1)
            lowest = np.minimum.accumulate(limit[:, some] - total, axis=1)
            lead[:, :, some] = total + np.minimum(lowest + host_lead[:, :, None], device_lead[:, :, None])
            device_lead = lead[:, :, some.stop - 1]
        if i < len(waits.end_ns):
            device_lead_there = lead[:, :, waits.place[i]] + after[:, i]
            now = host_lead + host.at_wait[:, i]
            bound = np.where(host.is_gone[:, i], now, np.minimum(now + waited[i], device_lead_there + early[i]))
            host_lead = host_lead + bound - now
    return host_lead, lead[:, :, queue.last_place]


def _after(queue: Queue, gone: Sequence[Callable[[Int64], Int64]], place: Int64, when: Int64) -> Int64:
    """Returns the reduction between the start of queue entry ``place`` and the time ``when``, with shape (changes,
    places).
    """
    start = np.append(queue.start_ns, 0)[place]
    between = np.stack([until(when) - until(start) for until in gone])
    found: Int64 = np.where(start <= when, between, 0)
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


class _Gone:
    """Cumulative reduction of device work by one change.

    For a lower bound, a reduction counts only while no other work runs on the device. For an upper bound, all
    reductions on the busiest stream count. Reductions on other streams count while the busiest stream is idle. If
    work is removed, the latency before this work is removed too.
    """

    def __init__(self, trace: TraceTable, queue: Queue, change: Change, careful: bool) -> None:
        device = queue.device
        mine = trace.device[change.row] == device
        row, wanted = change.row[mine], change.less_ns[mine]
        if len(row):
            start, end = trace.start_ns[row], trace.ends(row)
            bare = less = np.minimum(wanted, _time_alone(trace, device, row))
            busiest = trace.track[row] == queue.track
            if not careful:
                hidden = ~busiest & (bare < wanted) & change.awaited
                less = bare.copy()
                less[hidden] = np.maximum(
                    bare[hidden], np.minimum(wanted[hidden], _idle_time(trace, device, queue.track, row[hidden]))
                )
                # If a call that waits for its own copy is removed, the idle time before the copy disappears too.
                call = trace.launch[row]
                is_own = np.append(waits_for_device(trace), False)[call]
                before = idle_before(trace, device, start)
                latency = np.where(is_own, before, np.minimum(before, queue.usual_ns[0]))
                is_gone = (wanted >= end - start) & (busiest | (less > 0))
                less = np.where(busiest, wanted, less) + np.where(is_gone, latency, 0)
            order = np.argsort(end, kind="stable")
            less, bare, self._end = less[order], bare[order], end[order]
            self._beside = self._end[(~busiest & (wanted > 0) & change.awaited)[order]]
        else:
            less = bare = self._end = self._beside = wanted
        self._sum, self._alone = np.append(0, np.cumsum(less)), np.append(0, np.cumsum(bare))

    def until(self, when: Int64) -> Int64:
        """Returns, for each time, the total reduction of work that ended at or before this time."""
        found: Int64 = self._sum[np.searchsorted(self._end, when, side="right")]
        return found

    def until_exclusive(self, when: Int64) -> Int64:
        """Returns the same as ``until``, but counts only reductions while no other work ran on the device."""
        found: Int64 = self._alone[np.searchsorted(self._end, when, side="right")]
        return found

    def may_have_delayed(self, queue: Queue) -> Int64:
        """Returns the time by which each launch could be later if its work waited for shortened work."""
        ended = np.append(-FREE, self._beside)
        until = ended[np.searchsorted(ended, queue.start_ns, side="right") - 1]
        follows = queue.has_dependencies & (queue.start_ns - until <= max(queue.usual_ns))
        found: Int64 = np.where(follows, np.maximum(until - queue.returned_ns, 0), 0)
        return found


def _time_alone(trace: TraceTable, device: int, rows: Int64) -> Int64:
    overlap = _overlapping_rows(trace, device)
    start, end = trace.start_ns[rows], trace.ends(rows)
    place = np.searchsorted(overlap, rows)
    mixed = np.append(overlap, MISSING)[place] == rows
    others = np.ones(len(overlap), np.bool_)
    others[place[mixed]] = False
    alone = subtract(
        union(start[mixed], end[mixed]), union(trace.start_ns[overlap[others]], trace.ends(overlap[others]))
    )
    found = end - start
    found[mixed] = measure_within(alone, start[mixed], end[mixed])
    return found


def _idle_time(trace: TraceTable, device: int, track: int, rows: Int64) -> Int64:
    if not len(rows):
        return rows
    start, end = trace.start_ns[rows], trace.ends(rows)
    found: Int64 = end - start - measure_within(_busy_ranges(trace, device, track), start, end)
    return found


@cached_by_argument
def _busy_ranges(trace: TraceTable, device: int, track: int) -> Ranges:
    rows = covered_work(trace)
    rows = rows[(trace.device[rows] == device) & (trace.track[rows] == track)]
    return union(trace.start_ns[rows], trace.ends(rows))


@cached_by_argument
def _overlapping_rows(trace: TraceTable, device: int) -> Int64:
    rows = covered_work(trace)
    rows = rows[trace.device[rows] == device]
    start, end = trace.start_ns[rows], trace.ends(rows)
    order = np.lexsort((end, start))
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(np.append(-FREE, end))[:-1]
    found: Int64 = np.sort(rows[order[(start < reach) | (end > np.append(start[1:], FREE)[: len(start)])]])
    return found
