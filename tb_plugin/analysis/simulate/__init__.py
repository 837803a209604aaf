"""What if: how much less time steps would take if some of it were not spent, by running what was recorded again.

The host runs its program in order of time and is ahead of a device by what it saved (its lead). Work begins when its launch
allows it and what runs before it has ended; so a device follows the lead of the host only as far as it had nothing to do,
and work that was queued follows later. Where the host waits for a device its lead ends with that of the device. All other
durations, and the order of everything, stay as they were recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.blocking_calls import profiler_waits
from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.simulate.change import Change
from tb_plugin.analysis.simulate.dependencies import Queue, queue_of
from tb_plugin.analysis.simulate.replay import EITHER_EARLY, ON_TIME, leads_of
from tb_plugin.lib.intervals import Ranges, contains, covered_before, intersect, measure, subtract, union
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import Steps, TraceTable

__all__ = ["Change", "saved", "together"]

Int64 = npt.NDArray[np.int64]

_AT_ONCE = 2_000_000
"""So much work of all changes is run together, at about 60 bytes."""


def merge_changes(changes: Sequence[Change]) -> Change:
    """Returns all changes at once: of what several of them shorten, each moment once and the most of each row and step."""
    host = union(*(np.concatenate([getattr(c.host, side) for c in changes] or [[]]) for side in ("start", "end")))
    rows, less = _most([(change.row, change.less_ns) for change in changes])
    step, step_ns = _most([(change.step, change.step_ns) for change in changes])
    worth = max((change.worth for change in changes), default=1)
    return Change(host, rows, less, step, step_ns, worth, any(change.awaited for change in changes))


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
    """Returns how many nanoseconds less these steps would take with each change alone, all steps together.

    ``careful`` keeps the usual latency between two kernels where a gap closes and the usual latency of every launch: a lower
    bound. Without it both are taken to be none: an upper bound. A step that does the work of several counts as that many:
    what it saves is the time that all of them take less its own. All recorded steps (without any, the recording) are run
    once; some of them are repeated again and again.
    """
    if not len(steps.label) or not changes:
        return np.zeros(len(changes), np.int64)
    length = int((steps.end_ns - steps.start_ns).sum())
    known = np.array([int(change.step_ns.sum()) for change in changes], np.int64)
    gained = _gained(trace, steps, [_run_again(trace, steps, change) for change in changes], careful) + known
    if not careful:
        gained = _at_best(trace, steps, changes, gained - known, known)
    worth = np.array([change.worth for change in changes], np.int64)
    # What runs beside the steps may end after them; nothing is gained by a change that only moves it.
    # What the profiler holds up is no work that a step could do more of at once.
    held = measure(intersect(profiler_waits(trace), union(steps.start_ns, steps.end_ns)))
    found: Int64 = np.clip((gained + (length - held) * (worth - 1)) // worth, 0, length)
    return found


def _at_best(trace: TraceTable, steps: Steps, changes: Sequence[Change], elsewhere: Int64, known: Int64) -> Int64:
    """What changes with steps of known length gain at most: nothing counts twice in these.

    Either what else changes gains in them what it would without that knowledge, or as much as in the other steps, which
    gain ``elsewhere``.
    """
    some = [i for i, change in enumerate(changes) if len(change.step)]
    found = elsewhere + known
    none = np.empty(0, np.int64)
    for i in some:
        others = len(steps.label) - len(changes[i].step)
        spread = int(elsewhere[i]) * len(steps.label) // others if others > 0 else 0
        alone = _gained(trace, steps, [replace(changes[i], step=none, step_ns=none)], careful=False)
        found[i] = max(int(alone[0]), int(known[i]) + spread)
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
    """How much less time steps take with each change; below 0: more."""
    every = trace.steps
    if not steps.recorded or len(steps.label) == len(every.label):
        return _sooner(_once, trace, steps, changes, careful)
    # All that was recorded begins and ends as it did; of a part of it neither what came before nor what follows is its own.
    place = np.searchsorted(every.host_start_ns, steps.host_start_ns)
    total = np.zeros(len(changes), np.int64)
    for together in np.split(np.arange(len(place)), np.flatnonzero(np.diff(place) > 1) + 1):
        part = steps.only(together.tolist())
        total += _sooner(_again, trace, part, [_inside(trace, part, change) for change in changes], careful)
    return total


def _inside(trace: TraceTable, steps: Steps, change: Change) -> Change:
    """What of a change the host does in these steps, or launches there; what has no launch begins there."""
    begin, end = steps.host_start_ns[:1], steps.host_end_ns[-1:]
    launch = trace.launch[change.row]
    begun = trace.start_ns[np.where(launch == MISSING, change.row, launch)]
    mine = (begun >= begin) & (begun < end)
    return replace(
        change, host=intersect(change.host, Ranges(begin, end)), row=change.row[mine], less_ns=change.less_ns[mine]
    )


Program = Callable[[TraceTable, Queue, Sequence[Change], Steps, bool], Int64]


def _sooner(program: Program, trace: TraceTable, steps: Steps, changes: Sequence[Change], careful: bool) -> Int64:
    """How much less time steps take that are run in one way, with each change: by the slowest of the devices."""
    begin, host_end = int(steps.host_start_ns[0]), int(steps.host_end_ns[-1])
    queues = [queue for device in _devices(trace) if len((queue := queue_of(trace, device, begin, host_end)).row)]
    if not queues:
        return np.array([int(covered_before(change.host, np.array([host_end]))[0]) for change in changes], np.int64)
    every = [Change(), *changes]
    count = max(1, _AT_ONCE // max(len(queue.row) for queue in queues))
    total = np.zeros(len(every), np.int64)
    for first in range(0, len(every), count):
        some = every[first : first + count]
        found = [program(trace, queue, some, steps, careful) for queue in queues]
        total[first : first + count] = np.min(found, axis=0)
    less: Int64 = total[1:] - total[0]
    return less


def _once(trace: TraceTable, queue: Queue, changes: Sequence[Change], steps: Steps, careful: bool) -> Int64:
    """How much earlier what is recorded ends, less what is the same for all changes."""
    leads = leads_of(trace, queue, changes, steps, careful, ON_TIME)
    found: Int64 = -np.maximum(int(steps.host_end_ns[-1]) - leads.host[0], queue.last_ns - leads.device[0])
    return found


def _again(trace: TraceTable, queue: Queue, changes: Sequence[Change], steps: Steps, careful: bool) -> Int64:
    """How much sooner steps follow each other where these are repeated again and again; the same for all changes aside.

    Each time host and device begin as early as they were done the time before. Their leads grow by what is least of: the
    host's growth, the device's, and half of that of both by turns (the one waits for the other, and that one for the first).
    What the device has to do yet when the steps begin on the host it has to do again when they end: nothing of it is saved.
    """
    leads = leads_of(trace, queue, changes, steps, careful, EITHER_EARLY)
    (host, host_by_device), (device_by_host, device) = leads.host, leads.device
    more = (queue.last_ns - int(steps.host_end_ns[-1])) - (queue.first_ns - int(steps.host_start_ns[0]))
    found: Int64 = np.minimum(np.minimum(host, device - more), (host_by_device + device_by_host - more) // 2)
    return found


def _devices(trace: TraceTable) -> list[int]:
    found: list[int] = np.unique(trace.device[covered_work(trace)]).tolist()
    return found
