"""What if: how much earlier steps would end if some of their time were not spent, by running what was recorded again.

The host runs its program in order of time and is ahead of a device by what it saved (its lead). Work begins when its launch
allows it and what runs before it has ended; so a device follows the lead of the host only as far as it had nothing to do,
and work that was queued follows later. Where the host waits for a device its lead ends with that of the device. All other
durations, and the order of everything, stay as they were recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.busy import covered_work
from tb_plugin.analyses.launch_phases import launch_phases, usual
from tb_plugin.analyses.waits import waits_for_device
from tb_plugin.trace.intervals import EMPTY, Ranges, contains, covered_before, measure_within, subtract, union
from tb_plugin.trace.memo import remembered
from tb_plugin.trace.schema import MISSING, EventKind
from tb_plugin.trace.table import Steps, TraceTable

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

FREE = np.int64(1) << 60
"""No bound: longer than any trace."""
NEAR_NS = 20_000
"""The clocks of host and device agree so far: a wait may seem to return that long before what it waited for."""
_AT_ONCE = 16
"""So many changes are run together."""
_STRETCH = 4096
"""So much work is run together."""
MOST_WAITS = 20_000
"""Of more waits of the host the shorter ones keep their length."""


@dataclass(frozen=True, eq=False)
class Change:
    """Time that is not spent any more: when the host is not busy, and by how much device work is shorter."""

    host: Ranges = EMPTY
    row: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Device work, each row once."""
    less_ns: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Below 0: it takes longer."""
    step: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    """Steps (their places among all that are run again) of which is known how much shorter they are, each once."""
    step_ns: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    worth: int = 1
    """A step then does the work of so many."""


def together(changes: Sequence[Change]) -> Change:
    """Returns all changes at once: of what several of them shorten, each moment once and the most of each row and step."""
    host = union(*(np.concatenate([getattr(c.host, side) for c in changes] or [[]]) for side in ("start", "end")))
    rows, less = _most([(change.row, change.less_ns) for change in changes])
    step, step_ns = _most([(change.step, change.step_ns) for change in changes])
    return Change(host, rows, less, step, step_ns, max((change.worth for change in changes), default=1))


def _most(parts: Sequence[tuple[Int64, Int64]]) -> tuple[Int64, Int64]:
    """The most by which each is shorter, less the most by which it is longer."""
    of = np.concatenate([each for each, _ in parts] or [np.empty(0, np.int64)])
    by = np.concatenate([by for _, by in parts] or [np.empty(0, np.int64)])
    found, place = np.unique(of, return_inverse=True)
    more, less = np.zeros(len(found), np.int64), np.zeros(len(found), np.int64)
    np.maximum.at(more, place.ravel(), by)
    np.minimum.at(less, place.ravel(), by)
    return found, more + less


def saved(trace: TraceTable, steps: Steps, changes: Sequence[Change], careful: bool) -> Int64:
    """Returns by how many nanoseconds these steps would end earlier with each change alone, all steps together.

    ``careful`` keeps the usual latency between two kernels where a gap closes and the usual latency of every launch: a lower
    bound. Without it both are taken to be none: an upper bound. A step that does the work of several counts as that many:
    what it saves is the time that all of them take less its own.
    """
    if not len(steps.label) or not changes:
        return np.zeros(len(changes), np.int64)
    length = int(steps.end_ns[-1]) - int(steps.start_ns[0])
    again = [_run_again(trace, steps, change) for change in changes] if careful else changes
    gained = _gained(trace, steps, again, careful) + np.array([int(change.step_ns.sum()) for change in changes], np.int64)
    worth = np.array([change.worth for change in changes], np.int64)
    # What runs beside the steps may end after them; nothing is gained by a change that only moves it.
    return np.clip((gained + length * (worth - 1)) // worth, 0, length)


def _run_again(trace: TraceTable, steps: Steps, change: Change) -> Change:
    """What of a change lies outside of the steps of which is known how much shorter they are: nothing counts twice."""
    if not len(change.step):
        return change
    host = subtract(change.host, union(steps.host_start_ns[change.step], steps.host_end_ns[change.step]))
    known = union(steps.start_ns[change.step], steps.end_ns[change.step])
    outside = ~contains(known, trace.start_ns[change.row])
    return replace(change, host=host, row=change.row[outside], less_ns=change.less_ns[outside])


def _gained(trace: TraceTable, steps: Steps, changes: Sequence[Change], careful: bool) -> Int64:
    """How much earlier the last of the steps ends; below 0: later."""
    total = np.zeros(len(changes), np.int64)
    begin, host_end = int(steps.host_start_ns[0]), int(steps.host_end_ns[-1])
    queues = [queue for device in _devices(trace) if len((queue := _queue(trace, device, begin, host_end)).row)]
    if not queues:
        return np.array([int(covered_before(change.host, np.array([host_end]))[0]) for change in changes], np.int64)
    for first in range(0, len(changes), _AT_ONCE):
        some = changes[first : first + _AT_ONCE]
        ends = [_run(trace, queue, some, steps, careful) for queue in queues]
        total[first : first + _AT_ONCE] = int(steps.end_ns[-1]) - np.max(ends, axis=0)
    return total


def _devices(trace: TraceTable) -> list[int]:
    found: list[int] = np.unique(trace.device[covered_work(trace)]).tolist()
    return found


@dataclass(frozen=True, eq=False)
class _Queue:
    """The work of a device that holds up what comes after it, in turns between two waits of the host; nanoseconds.

    That is what its busiest stream runs, and what begins when the device had nothing to do.
    """

    row: Int64
    start_ns: Int64
    launched_ns: Int64
    gap_ns: Int64
    """How long the device had nothing to do before it because it was not launched yet."""
    stream_gap_ns: Int64
    """The same of its stream alone: what ran beside it may not have been in its way."""
    slack_ns: Int64
    """How much later its launch could have been without harm: 0 where nothing but the launch held it up."""
    is_known: Bool
    """Its launch is recorded."""
    turn: Int64
    """Bounds of the turns, one more than there are waits."""
    waits: _Waits
    usual_ns: tuple[int, int]
    """The usual latency between two kernels, and of a launch."""
    last_row: int
    """The last work of the steps to end, -1 = none."""


@dataclass(frozen=True, eq=False)
class _Waits:
    """Calls in which the host waits for a device, in order of their ends."""

    start_ns: Int64
    end_ns: Int64
    awaited: Int64
    """The row of the last work that had ended when the call returned, -1 = none."""
    place: Int64
    """Where in the queue the lead of that work stands."""


@remembered
def _queue(trace: TraceTable, device: int, begin: int, end: int) -> _Queue:
    launches = launch_phases(trace)
    mine = trace.device[launches.row] == device
    at = np.flatnonzero(mine)
    at = at[np.lexsort((launches.row[at], trace.start_ns[launches.row[at]]))]
    row, call = launches.row[at], launches.call[at]
    start, stop = trace.start_ns[row], trace.end_ns[row]
    reach = np.maximum.accumulate(np.append(begin, stop))[:-1]
    idle = np.maximum(start - reach, 0)
    is_known = call != MISSING
    launched = np.where(is_known, trace.start_ns[call], start)
    # A call that waits for its own copy returns after it: what held the copy up is what ran before.
    waits = waits_for_device(trace)[call] & is_known
    returned = np.where(waits, launched, trace.start_ns[call] + trace.dur_ns[call])
    blocked = np.minimum(np.where(waits, reach, launches.free_ns[at]), start)
    is_held = np.where(waits, reach > launched, launches.is_queued[at])
    slack = np.where(is_held, np.maximum(blocked - returned, 0), 0)
    # What the device itself needs between two pieces of queued work stays.
    gap = np.where(is_held, 0, idle)
    inside = (launched >= begin) & (launched < end)
    on_busiest = trace.track[row] == _busiest(trace, row[inside])
    chain = inside & ((idle > 0) | on_busiest)
    late = launches.latency_ns[at] > usual(launches.latency_ns[at][is_known & ~launches.is_queued[at]])
    stream_gap = np.where(is_held | late, gap, _stream_gaps(begin, start, stop, idle, on_busiest))
    queued = launches.is_queued[at] & (launches.latency_ns[at] > 0)
    medians = (
        _median(launches.latency_ns[at][queued]),
        _median(launches.latency_ns[at][is_known & ~launches.is_queued[at]]),
    )
    last = np.flatnonzero(inside)
    last_row = int(row[last][np.argmax(stop[last])]) if len(last) else MISSING
    row, start, launched, gap, stream_gap, slack, is_known = (
        column[chain] for column in (row, start, launched, gap, stream_gap, slack, is_known)
    )
    calls = _waiting(trace, device, begin, end)
    # In turns between waits: what is launched after a wait is held up by it.
    number = np.searchsorted(calls.end_ns, launched, side="right")
    order = np.lexsort((np.arange(len(row)), number))
    row, start, launched, gap, stream_gap, slack, is_known = (
        column[order] for column in (row, start, launched, gap, stream_gap, slack, is_known)
    )
    turn = np.searchsorted(number[order], np.arange(len(calls.end_ns) + 2))
    place = _place(start, trace.start_ns[calls.awaited])
    return _Queue(
        row, start, launched, gap, stream_gap, slack, is_known, turn,
        _Waits(calls.start_ns, calls.end_ns, calls.awaited, place), medians, last_row,
    )  # fmt: skip


def _stream_gaps(begin: int, start: Int64, stop: Int64, idle: Int64, mine: Bool) -> Int64:
    """How long the busiest stream had nothing to do before its work, less what counts of that as idle time before others."""
    others = np.append(0, np.cumsum(np.where(mine, 0, idle)))
    reach = np.maximum.accumulate(np.append(begin, stop[mine]))[:-1]
    counted = others[np.searchsorted(start, start[mine])] - others[np.searchsorted(start, reach, side="right")]
    found = idle.copy()
    found[mine] = np.maximum(start[mine] - reach - np.maximum(counted, 0), idle[mine])
    return found


def _median(values: Int64) -> int:
    return int(np.sort(values)[(len(values) - 1) // 2]) if len(values) else 0


def _busiest(trace: TraceTable, rows: Int64) -> int:
    if not len(rows):
        return MISSING
    tracks, of = np.unique(trace.track[rows], return_inverse=True)
    return int(tracks[np.argmax(np.bincount(of.ravel(), trace.dur_ns[rows]))])


def _waiting(trace: TraceTable, device: int, begin: int, end: int) -> _Waits:
    """The waits of threads that launch work of a device, and what each waited for."""
    rows = covered_work(trace)
    rows = rows[trace.device[rows] == device]
    rows = rows[np.argsort(trace.end_ns[rows], kind="stable")]
    known = rows[trace.launch[rows] != MISSING]
    call = trace.launch[known]
    threads = np.unique(trace.track[call])
    waits = np.flatnonzero(waits_for_device(trace) & (trace.kind == EventKind.RUNTIME) & np.isin(trace.track, threads))
    stop = trace.end_ns[waits]
    waits = waits[(trace.start_ns[waits] >= begin) & (stop <= end)]
    if len(waits) > MOST_WAITS:
        waits = waits[np.argsort(-trace.dur_ns[waits], kind="stable")[:MOST_WAITS]]
    waits = waits[np.lexsort((trace.start_ns[waits], trace.end_ns[waits]))]
    start, stop = trace.start_ns[waits], trace.end_ns[waits]
    launched = np.append(trace.start_ns[call], FREE)
    place = np.searchsorted(trace.end_ns[known], stop + NEAR_NS, side="right") - 1
    for _ in range(8):  # what another thread launched meanwhile is not what it waited for
        place = np.where((place >= 0) & (launched[place] > start), place - 1, place)
    place = np.where((place >= 0) & (launched[place] <= start), place, MISSING)
    awaited = np.append(known, MISSING)[place]
    return _Waits(start, stop, awaited.astype(np.int64), place)


def _place(start: Int64, when: Int64) -> Int64:
    """The last work of a queue that begins no later than each time, -1 = none."""
    order = np.argsort(start, kind="stable")
    found = np.searchsorted(start[order], when, side="right") - 1
    return np.append(order, MISSING)[found]


def _run(trace: TraceTable, queue: _Queue, changes: Sequence[Change], steps: Steps, careful: bool) -> Int64:
    """When the last of the steps ends with each change."""
    between, launch = queue.usual_ns if careful else (0, 0)
    # An unknown launch may have been waiting for the host, or have been queued long ago.
    gap = queue.gap_ns if careful else queue.stream_gap_ns
    gap = np.where(queue.is_known, np.maximum(gap - between, 0), 0 if careful else gap)
    slack = np.where(queue.is_known, np.maximum(queue.slack_ns - launch, 0), FREE if careful else 0)
    host = _Host(queue, changes, steps)
    device = [_Shorter(trace, queue, change) for change in changes]
    less = np.stack([each.before for each in device]) if len(queue.row) else np.zeros((len(changes), 0), np.int64)
    growth = np.diff(less, prepend=0, axis=1) + gap
    limit = host.covered + slack
    lead = np.zeros((len(changes), len(queue.row) + 1), np.int64)  # the last column: before all work
    device_lead, host_lead = np.zeros(len(changes), np.int64), np.zeros(len(changes), np.int64)
    after = np.stack([each.after_awaited for each in device])
    waits = queue.waits
    waited = np.clip(np.append(trace.end_ns, 0)[waits.awaited] - waits.start_ns, 0, waits.end_ns - waits.start_ns)
    early = np.maximum(waits.start_ns - np.append(trace.end_ns, 0)[waits.awaited], 0)
    early[waits.awaited == MISSING] = FREE
    for i in range(len(queue.turn) - 1):
        for begin in range(queue.turn[i], queue.turn[i + 1], _STRETCH):
            some = slice(begin, min(begin + _STRETCH, queue.turn[i + 1]))
            total = growth[:, some].cumsum(axis=1)
            lowest = np.minimum.accumulate(limit[:, some] + host_lead[:, None] - total, axis=1)
            lead[:, some] = total + np.minimum(lowest, device_lead[:, None])
            device_lead = lead[:, some.stop - 1]
        if i < len(waits.end_ns):
            there = lead[:, waits.place[i]] + after[:, i]
            now = host_lead + host.at_wait[:, i]
            bound = np.where(host.is_gone[:, i], now, np.minimum(now + waited[i], there + early[i]))
            host_lead = host_lead + bound - now
    ended = int(steps.host_end_ns[-1]) - (host_lead + host.at_end)
    if queue.last_row != MISSING:
        place = int(_place(queue.start_ns, trace.start_ns[[queue.last_row]])[0])
        there = lead[:, place] + np.array([each.after_last for each in device])
        ended = np.maximum(ended, int(trace.start_ns[queue.last_row] + trace.dur_ns[queue.last_row]) - there)
    return ended


class _Host:
    """How much of the host's time is gone at the launches, waits and the end, by change."""

    def __init__(self, queue: _Queue, changes: Sequence[Change], steps: Steps) -> None:
        waits = queue.waits
        self.covered = np.stack([covered_before(change.host, queue.launched_ns) for change in changes])
        self.at_wait = np.stack([covered_before(change.host, waits.end_ns) for change in changes])
        within = np.stack([measure_within(change.host, waits.start_ns, waits.end_ns) for change in changes])
        self.is_gone = (2 * within >= waits.end_ns - waits.start_ns) & (within > 0)
        end = steps.host_end_ns[-1:]
        self.at_end = np.array([covered_before(change.host, end)[0] for change in changes], np.int64)


class _Shorter:
    """By how much a device works less, with one change: only what ran alone makes a device free earlier."""

    def __init__(self, trace: TraceTable, queue: _Queue, change: Change) -> None:
        row = change.row[trace.device[change.row] == trace.device[queue.row[0]]] if len(queue.row) else change.row[:0]
        less = change.less_ns[np.isin(change.row, row)]
        start, end = trace.start_ns[row], trace.end_ns[row]
        if len(row):
            work = covered_work(trace)
            others = np.setdiff1d(work[trace.device[work] == trace.device[row[0]]], row)
            alone = subtract(union(start, end), union(trace.start_ns[others], trace.end_ns[others]))
            less = np.minimum(less, measure_within(alone, start, end))
        order = np.argsort(end, kind="stable")
        self._end, self._sum = end[order], np.append(0, np.cumsum(less[order]))
        self.before = self._until(queue.start_ns)
        starts = np.append(queue.start_ns, 0)
        ends = np.append(trace.start_ns + trace.dur_ns, 0) if len(row) else np.zeros(1, np.int64)
        if len(row):
            self.after_awaited = self._between(starts[queue.waits.place], ends[queue.waits.awaited])
            place = _place(queue.start_ns, trace.start_ns[[queue.last_row]])
            self.after_last = int(self._between(starts[place], ends[[queue.last_row]])[0])
        else:
            self.after_awaited, self.after_last = np.zeros(len(queue.waits.end_ns), np.int64), 0

    def _until(self, when: Int64) -> Int64:
        found: Int64 = self._sum[np.searchsorted(self._end, when, side="right")]
        return found

    def _between(self, start: Int64, end: Int64) -> Int64:
        found: Int64 = np.where(start <= end, self._until(end) - self._until(start), 0)
        return found
