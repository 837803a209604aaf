"""Root causes of waits, followed back from rank to rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.codes import codes
from tb_plugin.views.distributed.stragglers.arrivals import Arrivals
from tb_plugin.views.distributed.stragglers.calls import StragglerCalls
from tb_plugin.views.distributed.stragglers.detection import Stragglers
from tb_plugin.views.distributed.stragglers.intervals import bursts
from tb_plugin.views.distributed.stragglers.propagated_delay import waited_elsewhere

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

# shares of a wait: above _MOST the lateness is inherited; above _SOME it is more than noise
_MOST, _SOME = 0.5, 0.1
# minimum number of ranks to follow back
_HOPS = 64


@dataclass(frozen=True, eq=False)
class Roots:
    """Root cause of each call's wait: a worker that was not itself delayed elsewhere before."""

    by: Int64
    """The worker; -1 without a wait, or if the chain is unknown."""
    group: Int64
    """The group in which that worker was late; -1 if ``by`` is."""


def waits(met: StragglerCalls) -> Bool:
    """Returns which calls wait for a known other worker."""
    last = met.waiting.last
    found: Bool = (met.match >= 0) & (met.dur_ns > met.waiting.transfer_ns) & (last >= 0) & (last != met.worker)
    return found


def roots(met: StragglerCalls) -> Roots:
    """Returns the roots of all calls: each is followed back to the call in which its last worker waited longest.

    The last worker was delayed if it waited so much longer in other groups than the waiting one that this is most of the
    wait. For messages some of it is enough: the rest is wait by design. Calls that overlap with compute delay as well: they
    cost nothing, but leave their ranks apart.
    """
    # Messages between two ranks form a group: wait for a third rank is passed on.
    other = _other_end(met)
    pair = codes(np.minimum(met.worker, other), np.maximum(met.worker, other))
    met_in = replace(met, group=np.where(met.two_ended, pair, met.group)) if met.two_ended.any() else met
    # Concurrent calls of a group are late because of the time before the first of them.
    first = bursts(met_in)
    elsewhere = waited_elsewhere(met_in)[first]
    last = met.waiting.last
    wait = np.where(met.match >= 0, met.dur_ns - met.waiting.transfer_ns, 0)
    waiting = waits(met)
    late = np.full(int(met.match.max(initial=-1)) + 2, -1)  # the last one is for calls without a match
    is_last = np.flatnonzero((met.match >= 0) & (met.worker == last))
    late[met.match[is_last]] = is_last
    its = np.where(waiting & (late[met.match] >= 0), first[late[met.match]], -1)
    more = np.where(its >= 0, elsewhere[its] - elsewhere, 0)
    held = np.flatnonzero(more > np.where(met.two_ended, _SOME, _MOST) * wait)
    onward = np.arange(len(wait))
    onward[held] = _longest_elsewhere(met, elsewhere, its[held], _SOME * wait[held])
    for _ in range(_HOPS.bit_length()):
        onward = onward[onward]
    # Messages with an unknown other end, and cycles of concurrent calls, have no root.
    known = waiting & waiting[onward] & (onward[onward] == onward)
    return Roots(np.where(known, last[onward], -1), np.where(known, met.group[onward], -1))


def _other_end(met: StragglerCalls) -> Int64:
    """The other worker of each message with both ends loaded; else the worker itself."""
    ends = np.flatnonzero(met.two_ended & (met.match >= 0))
    total = np.zeros(int(met.match.max(initial=-1)) + 1, np.int64)
    np.add.at(total, met.match[ends], met.worker[ends])
    ends = ends[np.bincount(met.match[ends], minlength=len(total))[met.match[ends]] == 2]
    other = met.worker.copy()
    other[ends] = total[met.match[ends]] - met.worker[ends]
    return other


def _longest_elsewhere(met: StragglerCalls, elsewhere: Int64, late: Int64, enough: Float64) -> Int64:
    """For each ``late`` call, the call with the longest part of its worker's wait ``elsewhere``.

    A collective if its wait is ``enough``, since messages wait by design.
    """
    order = np.argsort(met.worker, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    length = np.where(met.match >= 0, met.dur_ns - met.waiting.transfer_ns, np.where(met.two_ended, met.dur_ns, 0))
    length = np.minimum(length, met.blocked_ns)[order]
    total, end = np.cumsum(length), place[late]
    # No call of the own group blocks in between, so all waits from here on are elsewhere: their sum gives the start.
    begin = np.searchsorted(total, (total - length)[end] - elsewhere[late], side="right")
    met_all = np.where(met.two_ended[order], 0, length)
    best = _largest(met_all, begin, end)
    return order[np.where(met_all[best] > enough, best, _largest(length, begin, end))]


def _largest(values: Int64, begin: Int64, end: Int64) -> Int64:
    """Position of the largest value in each non-empty range."""
    best, size = np.arange(len(values)), 1
    found = np.empty(len(begin), np.int64)
    width = end - begin
    while len(best):
        asked = np.flatnonzero((width >= size) & (width < 2 * size))
        left, right = best[begin[asked]], best[end[asked] - size]
        found[asked] = np.where(values[right] > values[left], right, left)
        left, right = best[:-size], best[size:]
        best = np.where(values[right] > values[left], right, left)
        size *= 2
    return found


@dataclass(frozen=True, eq=False)
class RootCauses:
    """Root causes of inherited lateness for workers in groups (rows of Stragglers); -1 without one."""

    inherited_ns: Int64
    """Inherited cost, summed over the collectives."""
    by: Int64
    """The worker at the root."""
    group: Int64
    """The group in which that worker was late."""


def root_causes(met: StragglerCalls, arrived: Arrivals, found: Stragglers, root: Roots) -> RootCauses:
    """Returns the root cause of each worker's lateness in a group."""
    count = len(found.worker)
    groups = int(max(found.group.max(initial=-1), met.group.max(initial=-1))) + 1
    row_of = np.full((len(found.lost_ns), max(groups, 1)), -1)
    row_of[found.worker, found.group] = np.arange(count)
    at = row_of[arrived.culprit, arrived.group]
    inherited = np.bincount(at, weights=arrived.inherited_ns, minlength=count).astype(np.int64)
    by, of = np.full(count, -1), np.full(count, -1)
    last = met.waiting.last
    calls = np.flatnonzero((root.by >= 0) & (root.by != last) & ~met.two_ended)
    row = row_of[last[calls], met.group[calls]]
    calls, row = calls[inherited[row] > 0], row[inherited[row] > 0]
    _, first, which = np.unique(codes(row, root.by[calls], root.group[calls]), return_index=True, return_inverse=True)
    total = np.bincount(which, weights=(met.dur_ns - met.waiting.transfer_ns)[calls], minlength=len(first))
    # The largest is written last.
    order = first[np.argsort(total, kind="stable")]
    by[row[order]], of[row[order]] = root.by[calls[order]], root.group[calls[order]]
    return RootCauses(inherited, by, of)


def passed_on(met: StragglerCalls, root: Roots, calls: Int64) -> tuple[int, float]:
    """Returns the root cause of most of the wait of some calls for a worker, and the mean wait per rank, ns.

    -1 and 0 if that is the worker itself, or if no worker causes more than half.
    """
    wait = met.dur_ns[calls] - met.waiting.transfer_ns[calls]
    by = root.by[calls]
    total = np.bincount(by + 1, weights=wait)
    most = int(np.argmax(total)) - 1 if len(total) else -1
    if most < 0 or most == met.waiting.last[calls[0]] or total[most + 1] <= _MOST * wait.sum():
        return -1, 0.0
    return most, float(total[most + 1]) / len(np.unique(met.worker[calls[by == most]]))
