"""Root causes of waits, followed back from rank to rank."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import codes
from tb_plugin.views.distributed.stragglers.arrivals import StragglerCalls, waited_elsewhere
from tb_plugin.views.distributed.stragglers.causes import first_of_burst

# shares of a wait: above _INHERITED_SHARE the lateness is inherited, above _NOISE_SHARE it exceeds noise
_INHERITED_SHARE, _NOISE_SHARE = 0.5, 0.1
# minimum number of ranks to follow back
_MIN_HOPS = 64


def waits_for_worker(calls: StragglerCalls) -> Bool:
    """Marks the calls that wait for a known other worker."""
    last = calls.waiting.last
    found: Bool = (calls.match >= 0) & (calls.wait_ns > 0) & (last >= 0) & (last != calls.worker)
    return found


def root_causes(calls: StragglerCalls) -> Int64:
    """Returns the root cause of the wait in each call: a late worker that no other worker delayed (-1 = unknown).

    Each wait is followed back to the call in which the last worker had its own longest wait. The last worker counts
    as delayed if its longer wait in other groups explains most of this wait. For messages, a small part is enough,
    because messages wait by design. Calls that overlap with compute cost nothing, but also pass on delays, because
    the ranks continue at different times.
    """
    # Messages between two ranks form a group, so wait for a third rank counts as wait in another group.
    other = _other_end(calls)
    pair = codes(np.minimum(calls.worker, other), np.maximum(calls.worker, other))
    if calls.two_ended.any():
        calls = replace(calls, group=np.where(calls.two_ended, pair, calls.group))
    # Concurrent calls of a group are late because of the time before the first of them.
    first = first_of_burst(calls)
    elsewhere = waited_elsewhere(calls)[first]
    last, waiting = calls.waiting.last, waits_for_worker(calls)
    wait = np.where(calls.match >= 0, calls.wait_ns, 0)
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
    return np.where(known, last[onward], -1)


def _other_end(calls: StragglerCalls) -> Int64:
    """Returns the other worker of each message if both ends are loaded, otherwise the worker of the call."""
    ends = np.flatnonzero(calls.two_ended & (calls.match >= 0))
    match = calls.match[ends]
    total = np.bincount(match, weights=calls.worker[ends]).astype(np.int64)
    is_pair = np.bincount(match)[match] == 2
    other = calls.worker.copy()
    other[ends[is_pair]] = (total[match] - calls.worker[ends])[is_pair]
    return other


def _longest_elsewhere(calls: StragglerCalls, elsewhere: Int64, late: Int64, enough: Float64) -> Int64:
    """Returns, for each call in ``late``, the longest wait of the call's worker in a call of another group.

    ``elsewhere`` is the sum of these waits. A collective whose wait exceeds ``enough`` takes precedence over
    messages, because messages wait by design.
    """
    length = np.minimum(calls.wait_ns, calls.blocked_ns)
    total = np.cumsum(length)
    # No call of the same group blocks in between, so all waits since then are in other groups: their sum gives the start.
    begin = np.searchsorted(total, (total - length)[late] - elsewhere[late], side="right")
    collective_waits = np.where(calls.two_ended, 0, length)
    best = _largest(collective_waits, begin, late)
    return np.where(collective_waits[best] > enough, best, _largest(length, begin, late))


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


def passed_on(calls: StragglerCalls, root: Int64, rows: Int64) -> tuple[int, float] | None:
    """Returns the worker that is the root cause of most of the wait in the calls ``rows``, and the mean wait per rank.

    All calls must wait for the same worker. The result is None if this worker is the root cause itself, or if no
    worker causes more than half of the wait.
    """
    wait, by = calls.wait_ns[rows], root[rows]
    total = np.bincount(by + 1, weights=wait)
    most = int(np.argmax(total)) - 1 if len(total) else -1
    if most < 0 or most == calls.waiting.last[rows[0]] or total[most + 1] <= _INHERITED_SHARE * wait.sum():
        return None
    return most, float(total[most + 1]) / len(np.unique(calls.worker[rows[by == most]]))
