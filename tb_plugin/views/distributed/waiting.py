"""Of matched calls: who arrived last, how long the data moved, how long was waited, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import MAD_TO_DEVIATION, codes, order_within, quantile_by
from tb_plugin.lib.intervals import union
from tb_plugin.views.distributed.matching.match import Calls

Int64 = npt.NDArray[np.int64]

MEASURED, BOUND, ESTIMATED = "measured", "bound", "estimated"
TIMINGS = (MEASURED, BOUND, ESTIMATED)
"""How sure waiting and transfer are. ``measured``: every rank of the group is here. ``bound``: a rank is missing; it may
have arrived later than those that are here, so transfer is at most, waiting at least what stands there. ``estimated``: a
worker that is here lacks the call, and the shortest of the others' calls is longer than that of the same collective ever is
by chance where no worker lacks it (``_usual``), so it probably arrived last: transfer is the median of those.
"""
FEWEST_USUAL = 4
"""Fewer collectives of a kind that nobody lacks hardly say how much such times vary: then twice as long is long, half as long
again where they are alike."""
ALIKE_SHARE = 10
"""Few are alike where the longest exceeds the median by no more than half of one in so many of it."""
LEAST_SHARE = 20
"""Longer than usual is by more than one in so many of the usual time, however alike the others are."""


@dataclass(frozen=True, eq=False)
class Waiting:
    """Of n calls; -1 and 0 for calls without a match."""

    workers: Int64
    """How many workers have the collective."""
    last: Int64
    """The worker that arrived last: its call is the shortest, it waits for nobody. Of an estimated one the worker that
    lacks the call; -1 where several do."""
    transfer_ns: Int64
    """At the end of the call; the rest of it is waiting."""
    timing: Int64
    """Position in TIMINGS."""


def waiting(calls: Calls, label: Int64, dur_ns: Int64, group_size: Int64, all_here: bool) -> Waiting:
    """Returns the times of matched calls.

    ``label`` is what ``match`` returned, ``group_size`` the ranks of each call's group (-1 = not recorded: then the group is
    what takes part in it here if ``all_here``, else it is not known to be complete).
    """
    rows = np.flatnonzero(label >= 0)
    order = rows[np.lexsort((calls.worker[rows], dur_ns[rows], label[rows]))]
    first = np.flatnonzero(np.diff(label[order], prepend=-1))
    shortest = order[first]  # one row a match, in the order of the labels
    workers = np.diff(np.append(first, len(order)))
    size = np.maximum.reduceat(group_size[order], first) if len(first) else np.empty(0, np.int64)
    pairs = np.unique(codes(calls.group, calls.worker), return_index=True)[1]
    taking_part = np.bincount(calls.group[pairs])[calls.group[shortest]] if len(pairs) else size
    none_lacks_it = workers >= taking_part
    complete = np.where(size >= 1, workers >= size, none_lacks_it & all_here)
    transfer = dur_ns[shortest]
    usual, most = _usual(codes(calls.group[shortest], calls.kind[shortest]), transfer, none_lacks_it)
    late = ~complete & ~none_lacks_it & (transfer > most)
    if len(first):
        here, all_of_group = np.add.reduceat(calls.worker[order], first), np.zeros(int(calls.group.max()) + 1, np.int64)
        np.add.at(all_of_group, calls.group[pairs], calls.worker[pairs])
        lacking = np.where(taking_part == workers + 1, all_of_group[calls.group[shortest]] - here, -1)
    else:
        lacking = shortest
    by_match = {
        "workers": workers,
        "last": np.where(late, lacking, calls.worker[shortest]),
        "transfer_ns": np.where(late, usual, transfer),
        "timing": np.where(complete, TIMINGS.index(MEASURED), TIMINGS.index(BOUND)),
    }
    by_match["timing"][late] = TIMINGS.index(ESTIMATED)
    columns = {name: np.full(len(label), 0 if name in ("workers", "transfer_ns") else -1) for name in by_match}
    for name, values in by_match.items():
        columns[name][rows] = values[label[rows]]
    columns["transfer_ns"] = np.minimum(columns["transfer_ns"], dur_ns)
    return Waiting(**columns)


def _usual(signature: Int64, transfer: Int64, sound: npt.NDArray[np.bool_]) -> tuple[Int64, Int64]:
    """For each match the median transfer of the sound ones with its signature, and the longest that is still usual.

    That is the largest of: the median and three standard deviations (by the median of the distances from it), the median and
    twice the way from there to what 95 of 100 do not exceed, and the median and its twentieth; of few sound ones twice the
    median at least, 1.5 times where they are alike. Of a single one, or none, no time is unusual.
    """
    _, of = np.unique(signature, return_inverse=True)
    kinds = int(of.max(initial=-1)) + 1
    key, known = of[sound], transfer[sound]
    median = quantile_by(key, known, kinds, 50)
    away = quantile_by(key, np.abs(known - median[key]), kinds, 50)
    high = quantile_by(key, known, kinds, 95) - median
    scatter = np.maximum(np.ceil(3 * MAD_TO_DEVIATION * away).astype(np.int64), 2 * high)
    most = median + np.maximum(scatter, median // LEAST_SHARE)
    count = np.bincount(key, minlength=kinds)
    alike = 2 * high <= median // ALIKE_SHARE
    most = np.where(count < FEWEST_USUAL, np.maximum(most, median + np.where(alike, median // 2, median)), most)
    most[count < 2] = np.iinfo(np.int64).max
    return median[of], most[of]


def caused_by(key: Int64, start: Int64, moving: Int64, end: Int64, last: Int64) -> tuple[Int64, Int64, Int64]:
    """Returns waits: the worker that causes each, the key in which others wait, and how long, nanoseconds.

    Of each key (a worker in a step) they are the union of the waits that a worker causes there, less what is transfer
    of another call. Rows are calls: they wait from ``start`` to ``moving`` for worker ``last`` and move data until ``end``.
    """
    # One axis of places on which the keys lie apart; ``time`` says when a place is.
    keys, times = np.tile(key, 3), np.concatenate((start, moving, end))
    order = order_within(keys, times)
    fresh = (np.diff(keys[order], prepend=-1) != 0) | (np.diff(times[order], prepend=0) != 0)
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(fresh) - 1
    time = times[order][fresh]
    begin, middle, finish = np.split(place, 3)
    # How much of each key is no transfer up to each place. Between two keys it is nonsense, and no wait reaches there.
    depth = np.zeros(len(time) + 1, np.int64)
    np.add.at(depth, middle, 1)
    np.add.at(depth, finish, -1)
    still = np.cumsum(np.diff(time, append=time[-1:]) * (np.cumsum(depth)[:-1] == 0))
    still = np.concatenate(([0], still))
    known = last >= 0
    shift = last[known] * len(time)
    waits = union(begin[known] + shift, middle[known] + shift)
    cause, at = np.divmod(waits.start, max(len(time), 1))
    return cause, keys[order][fresh][at], still[at + waits.end - waits.start] - still[at]
