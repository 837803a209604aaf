"""What if: how much earlier steps would end if some of their time were not spent, by running what was recorded again.

The host runs its program in order of time and is ahead of a device by what it saved (its lead). Work begins when its launch
allows it and what runs before it has ended; so a device follows the lead of the host only as far as it had nothing to do,
and work that was queued follows later. Where the host waits for a device its lead ends with that of the device. All other
durations, and the order of everything, stay as they were recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.busy import covered_work, device_busy
from tb_plugin.analyses.launch_phases import launch_phases, usual
from tb_plugin.analyses.launching.depth import FULL
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
    gained = _gained(trace, steps, again, careful) + np.array(
        [int(change.step_ns.sum()) for change in changes], np.int64
    )
    worth = np.array([change.worth for change in changes], np.int64)
    # What runs beside the steps may end after them; nothing is gained by a change that only moves it.
    found: Int64 = np.clip((gained + length * (worth - 1)) // worth, 0, length)
    return found


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
    """How long the device had nothing to do before it because it was not launched yet, as far as that is sure."""
    most_gap_ns: Int64
    """The same, at most; with what another stream did before it while its own had nothing to do."""
    slack_ns: Int64
    """How much later its launch could have been without harm: 0 where nothing but the launch held it up."""
    is_known: Bool
    """Its launch is recorded."""
    turn: Int64
    """Bounds of the turns, one more than there are waits."""
    waits: _Waits
    usual_ns: tuple[int, int]
    """The usual latency between two kernels, and of a launch."""
    device: int
    last_ns: int
    """When the last work of the steps ends."""
    last_place: int
    """Where in the queue its lead stands."""
    track: int
    """The busiest stream."""


@dataclass(frozen=True, eq=False)
class _Waits:
    """Calls in which the host waits for a device, in order of their ends."""

    start_ns: Int64
    end_ns: Int64
    done_ns: Int64
    """When the last work that had ended when the call returned did so; long ago where there was none."""
    place: Int64
    """Where in the queue the lead of that work stands, -1 = before all work."""


@remembered
def _queue(trace: TraceTable, device: int, begin: int, end: int) -> _Queue:
    launches = launch_phases(trace)
    mine = trace.device[launches.row] == device
    at = np.flatnonzero(mine)
    at = at[np.lexsort((launches.row[at], trace.start_ns[launches.row[at]]))]
    row, call = launches.row[at], launches.call[at]
    start, stop = _bounds(trace, row)
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
    fresh = launches.latency_ns[at][is_known & ~launches.is_queued[at]]
    # What the device itself needs between two pieces of queued work stays. Work that begins as soon after its launch as
    # it would on an empty queue may still have waited for the launch.
    is_sure = is_held & (start - returned > usual(fresh))
    inside = (launched >= begin) & (launched < end)
    busiest = _busiest(trace, row[inside])
    # What another stream did while the busiest one had nothing to do may have been in nobody's way.
    behind = np.where(is_held, 0, _behind(trace, device, row, trace.track[row] == busiest))
    gap, most = np.where(is_held, 0, idle), np.where(is_sure, 0, idle) + behind
    queued = launches.is_queued[at] & (launches.latency_ns[at] > 0)
    # Work of another stream that begins between two of the busiest one found no idle device.
    chain = inside & ((idle > usual(launches.latency_ns[at][queued])) | (trace.track[row] == busiest))
    launching = _median(fresh)
    # Where nothing was queued nobody knows how fast one kernel follows another: no slower than after a launch.
    typical = (_median(launches.latency_ns[at][queued]) if queued.any() else launching, launching)
    calls, awaited = _waiting(trace, device, begin, end)
    # In turns between waits: what is launched after a wait is held up by it.
    kept = np.flatnonzero(chain)
    number = np.searchsorted(calls.end_ns, launched[kept], side="right")
    kept = kept[np.argsort(number, kind="stable")]
    turn = np.searchsorted(np.sort(number), np.arange(len(calls.end_ns) + 2))
    place = _place(start[kept], np.append(trace.start_ns, -FREE)[awaited])
    last = np.flatnonzero(inside)[np.argmax(stop[inside])] if inside.any() else 0
    return _Queue(
        row[kept], start[kept], launched[kept], gap[kept], most[kept], slack[kept], is_known[kept], turn,
        replace(calls, place=place), typical, device, int(stop[last]) if inside.any() else begin,
        int(_place(start[kept], start[last : last + 1])[0]) if inside.any() else MISSING, busiest,
    )  # fmt: skip


def _behind(trace: TraceTable, device: int, row: Int64, mine: Bool) -> Int64:
    """How long others worked while a stream had nothing to do, before each of its work; 0 for other work and the first."""
    found = np.zeros(len(row), np.int64)
    start, stop = _bounds(trace, row[mine])
    if len(start):
        reach = np.maximum.accumulate(np.append(start[0], stop))[:-1]
        found[mine] = measure_within(device_busy(trace)[device], reach, start)
    return found


def _idle_before(trace: TraceTable, device: int, when: Int64) -> Int64:
    """How long a device had nothing to do until each of these times; 0 where it works, and at its first work."""
    busy = device_busy(trace)[device]
    place = np.searchsorted(busy.start, when)
    begins = np.append(busy.start, -FREE)[place] == when
    return np.where(begins & (place > 0), when - busy.end[place - 1], 0)


def _median(values: Int64) -> int:
    return int(np.sort(values)[(len(values) - 1) // 2]) if len(values) else 0


def _busiest(trace: TraceTable, rows: Int64) -> int:
    if not len(rows):
        return MISSING
    tracks, of = np.unique(trace.track[rows], return_inverse=True)
    return int(tracks[np.argmax(np.bincount(of.ravel(), trace.dur_ns[rows]))])


def _waiting(trace: TraceTable, device: int, begin: int, end: int) -> tuple[_Waits, Int64]:
    """The waits of threads that launch work of a device, and the row of what each waited for, -1 = none."""
    rows = covered_work(trace)
    rows = rows[trace.device[rows] == device]
    rows = rows[trace.launch[rows] != MISSING]
    ended = _bounds(trace, rows)[1]
    order = np.argsort(ended, kind="stable")
    rows, ended = rows[order], ended[order]
    call = trace.launch[rows]
    threads = np.unique(trace.track[call])
    waits = np.flatnonzero(waits_for_device(trace) & (trace.kind == EventKind.RUNTIME) & np.isin(trace.track, threads))
    waits = np.union1d(waits, _held(trace, rows))
    start, stop = _bounds(trace, waits)
    inside = (start >= begin) & (stop <= end)
    longest = np.lexsort((start, -(stop - start), ~inside))[: min(int(inside.sum()), MOST_WAITS)]
    longest = longest[np.lexsort((start[longest], stop[longest]))]
    start, stop = start[longest], stop[longest]
    launched = np.append(trace.start_ns[call], FREE)
    place = np.searchsorted(ended, stop + NEAR_NS, side="right") - 1
    for _ in range(8):  # what another thread launched meanwhile is not what it waited for
        place = np.where((place >= 0) & (launched[place] > start), place - 1, place)
    place = np.where((place >= 0) & (launched[place] <= start), place, MISSING)
    return _Waits(start, stop, np.append(ended, -FREE)[place], place), np.append(rows, MISSING)[place]


def _held(trace: TraceTable, rows: Int64) -> Int64:
    """Launches of this work that waited for the device to take earlier ones: the queue was full when they returned."""
    rows = rows[np.argsort(trace.start_ns[rows], kind="stable")]
    call, first = np.unique(trace.launch[rows].astype(np.int64), return_index=True)
    if len(call) < FULL:
        return call[:0]
    start, stop = _bounds(trace, call)
    depth = np.searchsorted(np.sort(start), stop) - np.searchsorted(np.sort(trace.start_ns[rows[first]]), stop, "right")
    full = depth >= FULL
    found: Int64 = call[full & (stop - start > 2 * _median((stop - start)[~full]))]
    return found


def _place(start: Int64, when: Int64) -> Int64:
    """The last work of a queue that begins no later than each time, -1 = none."""
    order = np.argsort(start, kind="stable")
    found = np.searchsorted(start[order], when, side="right") - 1
    return np.append(order, MISSING)[found]


def _run(trace: TraceTable, queue: _Queue, changes: Sequence[Change], steps: Steps, careful: bool) -> Int64:
    """When the last of the steps ends with each change."""
    between, launch = queue.usual_ns if careful else (0, 0)
    # An unknown launch may have been waiting for the host, or have been queued long ago.
    gap = np.where(queue.is_known, np.maximum(queue.gap_ns - between, 0), 0) if careful else queue.most_gap_ns
    slack = np.where(queue.is_known, np.maximum(queue.slack_ns - launch, 0), FREE if careful else 0)
    host = _Host(queue, changes, steps)
    gone = [_Gone(trace, queue, change, careful) for change in changes]
    less = np.stack([each.until(queue.start_ns) for each in gone])
    growth = np.diff(less, prepend=0, axis=1) + gap if len(queue.row) else less
    limit = host.covered + slack
    lead = np.zeros((len(changes), len(queue.row) + 1), np.int64)  # the last column: before all work
    device_lead, host_lead = np.zeros(len(changes), np.int64), np.zeros(len(changes), np.int64)
    waits = queue.waits
    after = _after(queue, [each.until for each in gone], waits.place, waits.done_ns)
    waited = np.clip(waits.done_ns - waits.start_ns, 0, waits.end_ns - waits.start_ns)
    early = np.maximum(waits.start_ns - waits.done_ns, 0)
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
    last, place = np.array([queue.last_ns]), np.array([queue.last_place])
    there = lead[:, queue.last_place] + _after(queue, [each.alone for each in gone], place, last)[:, 0]
    found: Int64 = np.maximum(ended, queue.last_ns - there)
    return found


def _after(queue: _Queue, gone: Sequence[Callable[[Int64], Int64]], place: Int64, when: Int64) -> Int64:
    """How much is gone from the begin of the work at each place of the queue to a time after it, by change."""
    start = np.append(queue.start_ns, 0)[place]
    between = np.stack([until(when) - until(start) for until in gone])
    found: Int64 = np.where(start <= when, between, 0)
    return found


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


class _Gone:
    """How long a device works less until any time, with one change: only what ran alone frees it earlier.

    At best all that its busiest stream works less does, and with work that is gone goes the latency before it.
    """

    def __init__(self, trace: TraceTable, queue: _Queue, change: Change, careful: bool) -> None:
        device = queue.device
        mine = trace.device[change.row] == device
        row, wanted = change.row[mine], change.less_ns[mine]
        if len(row):
            start, end = _bounds(trace, row)
            bare = less = np.minimum(wanted, _alone(trace, device, row))
            if not careful:
                busiest = trace.track[row] == queue.track
                latency = np.minimum(_idle_before(trace, device, start), queue.usual_ns[0])
                is_gone = (wanted >= end - start) & (busiest | (bare > 0))
                less = np.where(busiest, wanted, bare) + np.where(is_gone, latency, 0)
            order = np.argsort(end, kind="stable")
            less, bare, self._end = less[order], bare[order], end[order]
        else:
            less = bare = self._end = wanted
        self._sum, self._alone = np.append(0, np.cumsum(less)), np.append(0, np.cumsum(bare))

    def until(self, when: Int64) -> Int64:
        """Returns how much of what is gone had ended by each time, for the work that follows."""
        found: Int64 = self._sum[np.searchsorted(self._end, when, side="right")]
        return found

    def alone(self, when: Int64) -> Int64:
        """Returns how much of what is gone had ended by each time and ran alone: nothing else works longer."""
        found: Int64 = self._alone[np.searchsorted(self._end, when, side="right")]
        return found


def _alone(trace: TraceTable, device: int, rows: Int64) -> Int64:
    """How long each of these works of a device runs while no other work of it does, these left out."""
    beside = _side_by_side(trace, device)
    start, end = _bounds(trace, rows)
    place = np.searchsorted(beside, rows)
    mixed = np.append(beside, MISSING)[place] == rows
    others = np.ones(len(beside), np.bool_)
    others[place[mixed]] = False
    alone = subtract(union(start[mixed], end[mixed]), union(*_bounds(trace, beside[others])))
    found = end - start
    found[mixed] = measure_within(alone, start[mixed], end[mixed])
    return found


@remembered
def _side_by_side(trace: TraceTable, device: int) -> Int64:
    """The rows of a device's work that run beside other work of it."""
    rows = covered_work(trace)
    rows = rows[trace.device[rows] == device]
    start, end = _bounds(trace, rows)
    order = np.lexsort((end, start))
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(np.append(-FREE, end))[:-1]
    found: Int64 = np.sort(rows[order[(start < reach) | (end > np.append(start[1:], FREE)[: len(start)])]])
    return found


def _bounds(trace: TraceTable, rows: Int64) -> tuple[Int64, Int64]:
    """Begins and ends of some rows: a sum over all of them would take longer than anything else here."""
    start = trace.start_ns[rows]
    return start, start + trace.dur_ns[rows]
