"""Root causes of waits, followed back from rank to rank."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tb_plugin.lib.groupby import codes
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals
from tb_plugin.views.distributed.stragglers.calls import StragglerCalls
from tb_plugin.views.distributed.stragglers.detection import Stragglers
from tb_plugin.views.distributed.stragglers.intervals import first_of_burst
from tb_plugin.views.distributed.stragglers.propagated_delay import waited_elsewhere

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

# shares of a wait: above _INHERITED_SHARE the lateness is inherited, above _NOISE_SHARE it exceeds noise
_INHERITED_SHARE, _NOISE_SHARE = 0.5, 0.1
# minimum number of ranks to follow back
_MIN_HOPS = 64


class Roots(msgspec.Struct, frozen=True, eq=False):
    """Root cause of the wait in each call: a late worker that no other worker delayed."""

    by: Int64
    """The late worker; -1 if the call does not wait or the cause is unknown."""
    group: Int64
    """Group in which that worker was late; -1 if unknown."""


def waits_for_worker(calls: StragglerCalls) -> Bool:
    """Marks the calls that wait for a known other worker."""
    last = calls.waiting.last
    found: Bool = (calls.match >= 0) & (calls.dur_ns > calls.waiting.transfer_ns) & (last >= 0) & (last != calls.worker)
    return found


def root_cause_of_calls(calls: StragglerCalls) -> Roots:
    """Returns the root cause of the wait in each call.

    Each wait is followed back to the call in which the last worker had its own longest wait. The last worker counts
    as delayed if its longer wait in other groups explains most of this wait. For messages, a small part is enough,
    because messages wait by design. Calls that overlap with compute cost nothing, but also pass on delays, because
    the ranks continue at different times.
    """
    # Messages between two ranks form a group, so wait for a third rank counts as wait in another group.
    other = _other_end(calls)
    pair = codes(np.minimum(calls.worker, other), np.maximum(calls.worker, other))
    grouped_calls = (
        replace(calls, group=np.where(calls.two_ended, pair, calls.group)) if calls.two_ended.any() else calls
    )
    # Concurrent calls of a group are late because of the time before the first of them.
    first = first_of_burst(grouped_calls)
    elsewhere = waited_elsewhere(grouped_calls)[first]
    last = calls.waiting.last
    wait = np.where(calls.match >= 0, calls.dur_ns - calls.waiting.transfer_ns, 0)
    waiting = waits_for_worker(calls)
    late = np.full(int(calls.match.max(initial=-1)) + 2, -1)  # the last entry is for unmatched calls
    is_last = np.flatnonzero((calls.match >= 0) & (calls.worker == last))
    late[calls.match[is_last]] = is_last
    its = np.where(waiting & (late[calls.match] >= 0), first[late[calls.match]], -1)
    more = np.where(its >= 0, elsewhere[its] - elsewhere, 0)
    delayed = np.flatnonzero(more > np.where(calls.two_ended, _NOISE_SHARE, _INHERITED_SHARE) * wait)
    onward = np.arange(len(wait))
    onward[delayed] = _longest_elsewhere(calls, elsewhere, its[delayed], _NOISE_SHARE * wait[delayed])
    for _ in range(_MIN_HOPS.bit_length()):
        onward = onward[onward]
    # Messages with an unknown other end, and cycles of concurrent calls, have no root.
    known = waiting & waiting[onward] & (onward[onward] == onward)
    return Roots(np.where(known, last[onward], -1), np.where(known, calls.group[onward], -1))


def _other_end(calls: StragglerCalls) -> Int64:
    """Returns the other worker of each message if both ends are loaded, otherwise the worker of the call."""
    ends = np.flatnonzero(calls.two_ended & (calls.match >= 0))
    total = np.zeros(int(calls.match.max(initial=-1)) + 1, np.int64)
    np.add.at(total, calls.match[ends], calls.worker[ends])
    ends = ends[np.bincount(calls.match[ends], minlength=len(total))[calls.match[ends]] == 2]
    other = calls.worker.copy()
    other[ends] = total[calls.match[ends]] - calls.worker[ends]
    return other


def _longest_elsewhere(calls: StragglerCalls, elsewhere: Int64, late: Int64, enough: Float64) -> Int64:
    """Returns, for each call in ``late``, the longest wait of the call's worker in a call of another group.

    ``elsewhere`` is the sum of these waits. A collective whose wait exceeds ``enough`` takes precedence over
    messages, because messages wait by design.
    """
    order = np.argsort(calls.worker, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    length = np.where(
        calls.match >= 0, calls.dur_ns - calls.waiting.transfer_ns, np.where(calls.two_ended, calls.dur_ns, 0)
    )
    length = np.minimum(length, calls.blocked_ns)[order]
    total, end = np.cumsum(length), place[late]
    # No call of the same group blocks in between, so all waits since then are in other groups: their sum gives the start.
    begin = np.searchsorted(total, (total - length)[end] - elsewhere[late], side="right")
    collective_waits = np.where(calls.two_ended[order], 0, length)
    best = _largest(collective_waits, begin, end)
    return order[np.where(collective_waits[best] > enough, best, _largest(length, begin, end))]


def _largest(values: Int64, begin: Int64, end: Int64) -> Int64:
    """Returns the index of the largest value in each range. Ranges must not be empty."""
    best, size = np.arange(len(values)), 1
    found = np.empty(len(begin), np.int64)
    width = end - begin
    while len(best):
        selected = np.flatnonzero((width >= size) & (width < 2 * size))
        left, right = best[begin[selected]], best[end[selected] - size]
        found[selected] = np.where(values[right] > values[left], right, left)
        left, right = best[:-size], best[size:]
        best = np.where(values[right] > values[left], right, left)
        size *= 2
    return found


class RootCauses(msgspec.Struct, frozen=True, eq=False):
    """Root causes of inherited lateness: one value per row of Stragglers; -1 = none."""

    inherited_ns: Int64
    """Inherited cost, summed over the collectives."""
    by: Int64
    """Worker that is the root cause."""
    group: Int64
    """Group in which that worker was late."""


def root_causes(straggler_calls: StragglerCalls, arrived: Arrivals, found: Stragglers, root: Roots) -> RootCauses:
    """Returns the root cause of inherited lateness for each worker and group."""
    count = len(found.worker)
    groups = int(max(found.group.max(initial=-1), straggler_calls.group.max(initial=-1))) + 1
    row_of = np.full((len(found.lost_ns), max(groups, 1)), -1)
    row_of[found.worker, found.group] = np.arange(count)
    at = row_of[arrived.culprit, arrived.group]
    inherited = np.bincount(at, weights=arrived.inherited_ns, minlength=count).astype(np.int64)
    by, of = np.full(count, -1), np.full(count, -1)
    last = straggler_calls.waiting.last
    calls = np.flatnonzero((root.by >= 0) & (root.by != last) & ~straggler_calls.two_ended)
    row = row_of[last[calls], straggler_calls.group[calls]]
    calls, row = calls[inherited[row] > 0], row[inherited[row] > 0]
    _, first, which = np.unique(codes(row, root.by[calls], root.group[calls]), return_index=True, return_inverse=True)
    total = np.bincount(
        which, weights=(straggler_calls.dur_ns - straggler_calls.waiting.transfer_ns)[calls], minlength=len(first)
    )
    # The largest is written last, so it stays.
    order = first[np.argsort(total, kind="stable")]
    by[row[order]], of[row[order]] = root.by[calls[order]], root.group[calls[order]]
    return RootCauses(inherited, by, of)


def passed_on(straggler_calls: StragglerCalls, root: Roots, calls: Int64) -> tuple[int, float]:
    """Returns the worker that is the root cause of most of the wait in ``calls``, and the mean wait per rank, ns.

    All calls must wait for the same worker. The result is (-1, 0) if this worker is the root cause itself, or if no
    worker causes more than half of the wait.
    """
    wait = straggler_calls.dur_ns[calls] - straggler_calls.waiting.transfer_ns[calls]
    by = root.by[calls]
    total = np.bincount(by + 1, weights=wait)
    most = int(np.argmax(total)) - 1 if len(total) else -1
    if most < 0 or most == straggler_calls.waiting.last[calls[0]] or total[most + 1] <= _INHERITED_SHARE * wait.sum():
        return -1, 0.0
    return most, float(total[most + 1]) / len(np.unique(straggler_calls.worker[calls[by == most]]))
