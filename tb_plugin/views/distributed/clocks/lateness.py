"""Lateness at collectives, measured by corrected clocks."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import astuple

from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import codes
from tb_plugin.views.distributed.clocks.offsets import Clocks

KNOWN, BELOW, BEGAN_LATER, UNCLEAR, ALONE = range(5)
# below the residual: the skew is smaller than the clock error. recording starts later: a first collective after a late
# profiler start, which may explain the lateness. clocks unknown: the clocks of the ranks cannot be compared.
# alone: no other worker has the collective.
ARRIVALS = ("known", "below the residual", "recording starts later", "clocks unknown", "alone")


class Lateness(msgspec.Struct, frozen=True, eq=False):
    """Lateness of calls: one row per call. Times are 0 if ``arrival`` is "clocks unknown" or "alone"."""

    arrival: Int64
    lateness_ns: Int64
    """Corrected start of the call minus the median start of its collective."""
    skew_ns: Int64
    """Time from the first to the last corrected start of the collective."""
    last: Int64
    """Worker that started the collective last; -1 = unknown."""

    def take(self, keep: Bool) -> Lateness:
        return Lateness(*(values[keep] for values in astuple(self)))


class _Collectives(msgspec.Struct, frozen=True, eq=False):
    """Times that all calls of a collective have in common: one row per collective."""

    arrival: Int64
    middle_ns: Int64
    skew_ns: Int64
    last: Int64


def lateness_of(clocks: Clocks, worker: Int64, match: Int64, group: Int64, start_ns: Int64) -> Lateness:
    """Returns the lateness of each call.

    ``match`` is the index of each call's collective (-1 = none), and ``group`` is a code of the process group.
    Times are readings of each worker's clock.
    """
    rows = np.flatnonzero(match >= 0)
    w, m = worker[rows], match[rows]
    start = clocks.corrected(w, start_ns[rows])
    collectives = _per_collective(clocks, w, m, start)
    collectives.arrival[_begins_later(worker, match, group)] = BEGAN_LATER
    clear = _comparable(clocks, w, m, len(collectives.arrival))
    collectives.arrival[~clear] = UNCLEAR
    is_clear = clear[m]

    def spread(values: Int64, none: int) -> Int64:
        found = np.full(len(match), none)
        found[rows] = np.where(is_clear, values, none)
        return found

    arrival = np.full(len(match), ALONE)
    arrival[rows] = collectives.arrival[m]
    return Lateness(
        arrival=arrival,
        lateness_ns=spread(start - collectives.middle_ns[m], 0),
        skew_ns=spread(collectives.skew_ns[m], 0),
        last=spread(collectives.last[m], -1),
    )


def _per_collective(clocks: Clocks, worker: Int64, match: Int64, start: Int64) -> _Collectives:
    order = np.lexsort((worker, start, match))
    opening = np.flatnonzero(np.diff(match[order], prepend=-1))
    length = np.diff(np.append(opening, len(order)))
    first, last = order[opening], order[opening + length - 1]
    low, high = start[order[opening + (length - 1) // 2]], start[order[opening + length // 2]]
    skew = start[last] - start[first]
    unsure = np.maximum(clocks.residual_ns[worker[first]], clocks.residual_ns[worker[last]])
    return _Collectives(
        arrival=np.where(skew < unsure, BELOW, KNOWN),
        middle_ns=low + (high - low) // 2,
        skew_ns=skew,
        last=worker[last],
    )


def _comparable(clocks: Clocks, worker: Int64, match: Int64, count: int) -> Bool:
    number = clocks.connected[worker]
    least, most = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(least, match, number)
    np.maximum.at(most, match, number)
    found: Bool = (least == most) & (least >= 0)
    return found


def _begins_later(worker: Int64, match: Int64, group: Int64) -> Bool:
    """Returns the first collective of each worker that has fewer calls of a group than other workers, if other workers
    have earlier calls of the group.

    A worker may seem late there because its recording started late. Calls must be in time order for each worker.
    """
    pair = codes(group, worker)
    _, first, entry, count = np.unique(pair, return_index=True, return_inverse=True, return_counts=True)
    most = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, group[first], count)
    is_first, collectives = np.zeros(len(match), np.bool_), int(match.max(initial=-1)) + 1
    is_first[first] = True
    is_short = is_first & (count[entry] < most[group])
    begins, others = (
        np.bincount(match[(match >= 0) & rows], minlength=collectives) > 0 for rows in (is_short, ~is_first)
    )
    found: Bool = begins & others
    return found


class Sure(msgspec.Struct, frozen=True, eq=False):
    """Marks of the values in Lateness that exceed the clock error, for each call."""

    lateness: Bool
    skew: Bool
    """The skew exceeds the clock error, so the last rank is known."""


def sure_of(late: Lateness, clocks: Clocks, worker: Int64) -> Sure:
    """Marks the values of Lateness that exceed the clock error."""
    known = late.arrival == KNOWN
    return Sure(lateness=known & (np.abs(late.lateness_ns) >= clocks.residual_ns[worker]), skew=known)
