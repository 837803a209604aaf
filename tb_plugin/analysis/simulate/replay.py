"""Recorded steps run again without some time: one work after another, from one wait of the host to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.blocking_calls import profiler_waits, waits_for_device
from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.simulate.change import Change
from tb_plugin.analysis.simulate.dependencies import FREE, Queue, idle_before
from tb_plugin.lib.intervals import Ranges, contains, covered_before, measure_within, subtract, union
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import Steps, TraceTable

Int64 = npt.NDArray[np.int64]

_STRETCH = 4096
"""So much work is run together."""


@dataclass(frozen=True, eq=False)
class Leads:
    """How much earlier than recorded host and device are done with the steps: rows are begins, columns changes."""

    host: Int64
    device: Int64


ON_TIME = ((0, 0),)
EITHER_EARLY = ((0, int(FREE)), (int(FREE), 0))
"""Leads of host and device with which steps begin: one that is early holds nothing up, and what comes of the other shows."""


def leads_of(
    trace: TraceTable,
    queue: Queue,
    changes: Sequence[Change],
    steps: Steps,
    careful: bool,
    begins: tuple[tuple[int, int], ...],
) -> Leads:
    """Returns how much earlier host and device are done with each change, from each of these begins on."""
    between, launch = queue.usual_ns if careful else (0, 0)
    # An unknown launch may have been waiting for the host, or have been queued long ago.
    gap = np.where(queue.is_known, np.maximum(queue.gap_ns - between, 0), 0) if careful else queue.most_gap_ns
    slack = np.where(queue.is_known, np.maximum(queue.slack_ns - launch, 0), FREE if careful else 0)
    host = _Host(queue, changes, steps, profiler_waits(trace))
    gone = [_Gone(trace, queue, change, careful) for change in changes]
    less = np.stack([each.until(queue.start_ns) for each in gone])
    growth: Int64 = np.diff(less, prepend=np.int64(0), axis=1)
    growth += gap
    limit = np.stack([covered_before(change.host, queue.launched_ns) for change in changes])
    limit += slack
    if not careful:  # what goes with its call waits for no launch
        for change, each, bound in zip(changes, gone, limit, strict=True):
            gone_row = change.row[change.less_ns >= trace.dur_ns[change.row]]
            bound[np.isin(queue.row, gone_row) & contains(change.host, queue.launched_ns)] = FREE
            bound += np.maximum(each.may_have_held_up(queue) - slack, 0)
    after = _after(queue, [each.until for each in gone], queue.waits.place, queue.waits.done_ns)
    last = _after(queue, [each.alone for each in gone], np.array([queue.last_place]), np.array([queue.last_ns]))[:, 0]
    host_lead, lead = _run(queue, host, growth, limit, after, begins)
    return Leads(host_lead + host.at_end, lead + last)


def _run(
    queue: Queue, host: _Host, growth: Int64, limit: Int64, after: Int64, begins: tuple[tuple[int, int], ...]
) -> tuple[Int64, Int64]:
    """How far the host's lead is at last beyond what went on the host itself, and that of the device, by begin and change."""
    waits = queue.waits
    host_lead, device_lead = (
        np.repeat(np.array(side)[:, None], len(growth), axis=1) for side in zip(*begins, strict=True)
    )
    lead = np.empty((*host_lead.shape, len(queue.row) + 1), np.int64)
    lead[:, :, -1] = device_lead  # before all work
    waited = np.clip(waits.done_ns - waits.start_ns, 0, waits.end_ns - waits.start_ns)
    early = np.maximum(waits.start_ns - waits.done_ns, 0)
    for i in range(len(queue.turn) - 1):
        for begin in range(queue.turn[i], queue.turn[i + 1], _STRETCH):
            some = slice(begin, min(begin + _STRETCH, queue.turn[i + 1]))
            total = growth[:, some].cumsum(axis=1)
            lowest = np.minimum.accumulate(limit[:, some] - total, axis=1)
            lead[:, :, some] = total + np.minimum(lowest + host_lead[:, :, None], device_lead[:, :, None])
            device_lead = lead[:, :, some.stop - 1]
        if i < len(waits.end_ns):
            there = lead[:, :, waits.place[i]] + after[:, i]
            now = host_lead + host.at_wait[:, i]
            bound = np.where(host.is_gone[:, i], now, np.minimum(now + waited[i], there + early[i]))
            host_lead = host_lead + bound - now
    return host_lead, lead[:, :, queue.last_place]


def _after(queue: Queue, gone: Sequence[Callable[[Int64], Int64]], place: Int64, when: Int64) -> Int64:
    """How much is gone from the begin of the work at each place of the queue to a time after it, by change."""
    start = np.append(queue.start_ns, 0)[place]
    between = np.stack([until(when) - until(start) for until in gone])
    found: Int64 = np.where(start <= when, between, 0)
    return found


class _Host:
    """How much of the host's time is gone at the waits and the end, by change.

    A wait is gone with half of its time, that aside in which it waits for the profiler.
    """

    def __init__(self, queue: Queue, changes: Sequence[Change], steps: Steps, held: Ranges) -> None:
        waits = queue.waits
        self.at_wait = np.stack([covered_before(change.host, waits.end_ns) for change in changes])
        own = [subtract(change.host, held) for change in changes]
        within = np.stack([measure_within(each, waits.start_ns, waits.end_ns) for each in own])
        self.is_gone = (2 * within >= waits.own_ns) & (within > 0)
        end = steps.host_end_ns[-1:]
        self.at_end = np.array([covered_before(change.host, end)[0] for change in changes], np.int64)


class _Gone:
    """How long a device works less until any time, with one change: only what ran alone frees it earlier.

    At best all that its busiest stream works less does, and what others work less while that one has nothing to do: it may
    have waited for them, and a third one's work, as a copy for the next step, goes on beside it. With work that is gone goes
    the latency before it.
    """

    def __init__(self, trace: TraceTable, queue: Queue, change: Change, careful: bool) -> None:
        device = queue.device
        mine = trace.device[change.row] == device
        row, wanted = change.row[mine], change.less_ns[mine]
        if len(row):
            start, end = trace.start_ns[row], trace.ends(row)
            bare = less = np.minimum(wanted, _alone(trace, device, row))
            busiest = trace.track[row] == queue.track
            if not careful:
                hidden = ~busiest & (bare < wanted) & change.awaited
                less = bare.copy()
                less[hidden] = np.maximum(
                    bare[hidden], np.minimum(wanted[hidden], _resting(trace, device, queue.track, row[hidden]))
                )
                # What a call that waits for its own copy did before that is gone with it.
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
        """Returns how much of what is gone had ended by each time, for the work that follows."""
        found: Int64 = self._sum[np.searchsorted(self._end, when, side="right")]
        return found

    def alone(self, when: Int64) -> Int64:
        """Returns how much of what is gone had ended by each time and ran alone: nothing else works longer."""
        found: Int64 = self._alone[np.searchsorted(self._end, when, side="right")]
        return found

    def may_have_held_up(self, queue: Queue) -> Int64:
        """Returns how much later each launch could have been if its work waited for what gets shorter on another stream.

        It may have where it begins as soon after that as work usually begins after its launch, which had returned before.
        """
        ended = np.append(-FREE, self._beside)
        until = ended[np.searchsorted(ended, queue.start_ns, side="right") - 1]
        follows = queue.is_known & (queue.start_ns - until <= max(queue.usual_ns))
        found: Int64 = np.where(follows, np.maximum(until - queue.returned_ns, 0), 0)
        return found


def _alone(trace: TraceTable, device: int, rows: Int64) -> Int64:
    """How long each of these works of a device runs while no other work of it does, these left out."""
    beside = _side_by_side(trace, device)
    start, end = trace.start_ns[rows], trace.ends(rows)
    place = np.searchsorted(beside, rows)
    mixed = np.append(beside, MISSING)[place] == rows
    others = np.ones(len(beside), np.bool_)
    others[place[mixed]] = False
    alone = subtract(union(start[mixed], end[mixed]), union(trace.start_ns[beside[others]], trace.ends(beside[others])))
    found = end - start
    found[mixed] = measure_within(alone, start[mixed], end[mixed])
    return found


def _resting(trace: TraceTable, device: int, track: int, rows: Int64) -> Int64:
    """How long a stream has nothing to do while each of these works of its device runs."""
    if not len(rows):
        return rows
    start, end = trace.start_ns[rows], trace.ends(rows)
    found: Int64 = end - start - measure_within(_working(trace, device, track), start, end)
    return found


@remembered
def _working(trace: TraceTable, device: int, track: int) -> Ranges:
    """When a stream works."""
    rows = covered_work(trace)
    rows = rows[(trace.device[rows] == device) & (trace.track[rows] == track)]
    return union(trace.start_ns[rows], trace.ends(rows))


@remembered
def _side_by_side(trace: TraceTable, device: int) -> Int64:
    """The rows of a device's work that run beside other work of it."""
    rows = covered_work(trace)
    rows = rows[trace.device[rows] == device]
    start, end = trace.start_ns[rows], trace.ends(rows)
    order = np.lexsort((end, start))
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(np.append(-FREE, end))[:-1]
    found: Int64 = np.sort(rows[order[(start < reach) | (end > np.append(start[1:], FREE)[: len(start)])]])
    return found
