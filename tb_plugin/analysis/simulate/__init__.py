"""Simulation of the time that a change saves per step.

The simulation replays recorded work in the recorded order. Only the change affects durations. The *lead* of the
host or of a device is how much earlier it is in the simulation than in the recording. Work starts as soon as its
launch and earlier work allow. A lead of the host therefore helps a device only where the device was idle. When the
host waits for a device, the host gets the lead of the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.blocking_calls import profiler_waits
from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.simulate.change import Assumption, Change
from tb_plugin.lib.arrays import Float64, Int64
from tb_plugin.lib.intervals import EMPTY, Ranges, contains, intersect, measure, subtract, union
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import Steps, TraceTable

if TYPE_CHECKING:
    from tb_plugin.analysis.simulate.streams import Leads, Streams

__all__ = ["Assumption", "Change", "merge_changes", "savings", "time_saved"]


# Work of all changes in one run, about 60 bytes each.
_MAX_WORK_PER_RUN = 2_000_000


def merge_changes(changes: Sequence[Change]) -> Change:
    """Combines changes. Overlapping ranges count once.

    For each row, the largest reduction and the largest growth are added.
    """
    host = union(*(np.concatenate([getattr(c.host, side) for c in changes] or [[]]) for side in ("start", "end")))
    scaled, share = _largest_share(changes, host)
    rows, less = _largest_reduction([(change.row, change.less_ns) for change in changes])
    step, step_ns = _largest_reduction([(change.step, change.step_ns) for change in changes])
    worth = max((change.worth for change in changes), default=1)
    return Change(host, rows, less, step, step_ns, worth, scaled, share)


def _largest_share(changes: Sequence[Change], gone: Ranges) -> tuple[Ranges, Float64]:
    """Returns the scaled ranges of all changes outside ``gone``.

    Overlaps get the largest share plus the most negative share.
    """
    some = [change for change in changes if len(change.scaled)]
    if not some:
        return EMPTY, np.empty(0)
    sides = [side for ranges in (gone, *(change.scaled for change in some)) for side in (ranges.start, ranges.end)]
    time = np.unique(np.concatenate(sides))
    left, right = time[:-1], time[1:]
    shares = np.zeros((len(some), len(left)))
    for row, change in zip(shares, some, strict=True):
        place = np.searchsorted(change.scaled.start, left, side="right") - 1
        inside = (place >= 0) & (left < change.scaled.end[place])
        row[inside] = change.scaled_share[place[inside]]
    share = np.maximum(shares.max(axis=0), 0) + np.minimum(shares.min(axis=0), 0)
    kept = (share != 0) & ~contains(gone, left)
    return Ranges(left[kept], right[kept]), share[kept]


def _largest_reduction(parts: Sequence[tuple[Int64, Int64]]) -> tuple[Int64, Int64]:
    of = np.concatenate([each for each, _ in parts] or [np.empty(0, np.int64)])
    by = np.concatenate([by for _, by in parts] or [np.empty(0, np.int64)])
    found, place = np.unique(of, return_inverse=True)
    more, less = np.zeros(len(found), np.int64), np.zeros(len(found), np.int64)
    np.maximum.at(more, place.ravel(), by)
    np.minimum.at(less, place.ravel(), by)
    return found, more + less


def time_saved(trace: TraceTable, steps: Steps, changes: Sequence[Change], careful: bool) -> Int64:
    """Returns the time that each change alone would save, in nanoseconds over all ``steps``.

    If ``careful`` is True, the result is a lower bound: launch latencies and gaps between kernels keep their usual
    length. Otherwise, both are zero, and the result is an upper bound. If ``steps`` contains all recorded steps,
    the recording is replayed once. Otherwise, the selected steps are repeated indefinitely.
    """
    if not len(steps.label) or not changes:
        return np.zeros(len(changes), np.int64)
    assume = Assumption.LOW if careful else Assumption.HIGH
    length = int((steps.end_ns - steps.start_ns).sum())
    known = np.array([int(change.step_ns.sum()) for change in changes], np.int64)
    outside = [_outside_known_steps(trace, steps, change) for change in changes]
    gained = _gained(trace, steps, outside, assume) + known
    if not careful:
        gained = _upper_bound(trace, steps, changes, gained - known, known)
    worth = np.array([change.worth for change in changes], np.int64)
    # Clipped, because work outside of the steps may also move. Time blocked by the profiler is not repeated by ``worth``.
    profiler_ns = measure(intersect(profiler_waits(trace), union(steps.start_ns, steps.end_ns)))
    found: Int64 = np.clip((gained + (length - profiler_ns) * (worth - 1)) // worth, 0, length)
    return found


def savings(trace: TraceTable, steps: Steps, changes: Sequence[Change], assume: Assumption) -> Int64:
    """Returns the time that each change alone would save, in nanoseconds over all ``steps``; negative if it costs time.

    Changes of known steps and of ``worth`` are not supported.
    """
    if not len(steps.label) or not changes:
        return np.zeros(len(changes), np.int64)
    length = int((steps.end_ns - steps.start_ns).sum())
    found = _gained(trace, steps, changes, assume)
    if assume == Assumption.HIGH and len(np.unique(hardware_streams(trace).of[covered_work(trace)])) > 1:
        # An assumed wait can delay work or bring it forward, so neither replay alone is an upper bound.
        found = np.maximum(found, _gained(trace, steps, changes, Assumption.HIGH_WITH_SPACE))
    return np.minimum(found, length)


def _upper_bound(trace: TraceTable, steps: Steps, changes: Sequence[Change], elsewhere: Int64, known: Int64) -> Int64:
    """Returns an upper bound for changes that shorten some steps by a known time.

    This is the larger one of two estimates. The first estimate ignores the known times. The second estimate is the
    sum of the known times and the saving in the other steps, scaled to all steps.
    """
    some = [i for i, change in enumerate(changes) if len(change.step)]
    found = elsewhere + known
    none = np.empty(0, np.int64)
    for i in some:
        others = len(steps.label) - len(changes[i].step)
        spread = int(elsewhere[i]) * len(steps.label) // others if others > 0 else 0
        alone = _gained(trace, steps, [replace(changes[i], step=none, step_ns=none)], Assumption.HIGH)
        found[i] = max(int(alone[0]), int(known[i]) + spread)
    return found


def _outside_known_steps(trace: TraceTable, steps: Steps, change: Change) -> Change:
    if not len(change.step):
        return change
    host = subtract(change.host, union(steps.host_start_ns[change.step], steps.host_end_ns[change.step]))
    known = union(steps.start_ns[change.step], steps.end_ns[change.step])
    outside = ~contains(known, trace.start_ns[change.row])
    return replace(change, host=host, row=change.row[outside], less_ns=change.less_ns[outside])


def _gained(trace: TraceTable, steps: Steps, changes: Sequence[Change], assume: Assumption) -> Int64:
    """Returns the time saved by each change, in nanoseconds; negative if the change costs time."""
    every = trace.steps
    if not steps.recorded or len(steps.label) == len(every.label):
        return _time_saved(trace, steps, changes, assume, repeats=False)
    # Only the complete recording has a fixed start and end. A part of it is repeated, because other work overlaps it.
    place = np.searchsorted(every.host_start_ns, steps.host_start_ns)
    total = np.zeros(len(changes), np.int64)
    for together in np.split(np.arange(len(place)), np.flatnonzero(np.diff(place) > 1) + 1):
        part = steps.take(together.tolist())
        mine = [_inside(trace, part, change) for change in changes]
        total += _time_saved(trace, part, mine, assume, repeats=True)
    return total


def _inside(trace: TraceTable, steps: Steps, change: Change) -> Change:
    begin, end = steps.host_start_ns[:1], steps.host_end_ns[-1:]
    launch = trace.launch[change.row]
    begun = trace.start_ns[np.where(launch == MISSING, change.row, launch)]
    # Without a launch, the time on the device decides.
    since = np.where(launch == MISSING, steps.start_ns[0], begin[0])
    until = np.where(launch == MISSING, steps.end_ns[-1], end[0])
    mine = (begun >= since) & (begun < until)
    scaled = change.scaled
    cut = (scaled.start < end[0]) & (scaled.end > begin[0])
    scaled = Ranges(np.maximum(scaled.start[cut], begin[0]), np.minimum(scaled.end[cut], end[0]))
    return replace(
        change,
        host=intersect(change.host, Ranges(begin, end)),
        row=change.row[mine],
        less_ns=change.less_ns[mine],
        scaled=scaled,
        scaled_share=change.scaled_share[cut],
    )


def _time_saved(trace: TraceTable, steps: Steps, changes: Sequence[Change], assume: Assumption, repeats: bool) -> Int64:
    """Returns the time saved by each change, in nanoseconds. The device that ends last determines this time."""
    begin, host_end = int(steps.host_start_ns[0]), int(steps.host_end_ns[-1])
    host_only = np.array([int(change.host_before(np.array([host_end]))[0]) for change in changes], np.int64)
    if not (devices := _devices(trace)):
        return host_only
    # Imported late, because all rules import this package.
    from tb_plugin.analysis.simulate.streams import EITHER_EARLY, ON_TIME, stream_leads, streams_of

    queues = [streams_of(trace, device, begin, host_end, assume) for device in devices]
    queues = [queue for queue in queues if len(queue.row)]
    if not queues:
        return host_only
    begins, saved = (EITHER_EARLY, _saved_per_repeat) if repeats else (ON_TIME, _saved_once)
    every = [Change(), *changes]
    count = max(1, _MAX_WORK_PER_RUN // max(len(queue.row) for queue in queues))
    total = np.zeros(len(every), np.int64)
    for first in range(0, len(every), count):
        some = every[first : first + count]
        found = [saved(queue, stream_leads(assume, trace, queue, some, steps, begins), steps) for queue in queues]
        total[first : first + count] = np.min(found, axis=0)
    less: Int64 = total[1:] - total[0]
    return less


def _saved_once(queue: Streams, leads: Leads, steps: Steps) -> Int64:
    """Returns how much earlier the recording ends with each change, plus a constant that is the same for all
    changes.
    """
    found: Int64 = -np.maximum(int(steps.host_end_ns[-1]) - leads.host[0], queue.last_ns - leads.device[0])
    return found


def _saved_per_repeat(queue: Streams, leads: Leads, steps: Steps) -> Int64:
    """Returns how much shorter each repetition becomes if the steps repeat indefinitely, plus a constant that is
    the same for all changes.

    Each repetition starts with the final leads of the previous repetition. The saving is the smallest of three
    values: the growth of the host's lead, the growth of the device's lead, and half of the growth if host and
    device wait for each other.
    """
    (host, host_by_device), (device_by_host, device) = leads.host, leads.device
    more = (queue.last_ns - int(steps.host_end_ns[-1])) - (queue.first_ns - int(steps.host_start_ns[0]))
    found: Int64 = np.minimum(np.minimum(host, device - more), (host_by_device + device_by_host - more) // 2)
    return found


def _devices(trace: TraceTable) -> list[int]:
    found: list[int] = np.unique(trace.device[covered_work(trace)]).tolist()
    return found
