"""Wait and transfer times of matched calls, with their accuracy."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import codes, order_within
from tb_plugin.lib.intervals import union
from tb_plugin.views.distributed.matching.match import Calls

MEASURED, BOUND = "measured", "bound"
# MEASURED: all ranks of the group have the call. BOUND: another rank may have arrived later, so transfer is an upper and
# wait a lower bound.
TIMINGS = (MEASURED, BOUND)


class Waiting(msgspec.Struct, frozen=True, eq=False):
    """Wait and transfer: one row per call.

    For unmatched calls, ``workers`` and ``transfer_ns`` are 0, and other columns are -1.
    """

    workers: Int64
    last: Int64
    """Worker that arrived last: the one with the shortest call."""
    transfer_ns: Int64
    """Transfer time: the last part of the call. The worker waits in the first part."""
    timing: Int64


def waits_and_transfers(calls: Calls, label: Int64, dur_ns: Int64, group_size: Int64, all_here: bool) -> Waiting:
    """Splits the duration of matched calls into wait and transfer.

    ``label`` is the result of ``match``. ``group_size`` is the size of each call's group (-1 = unknown).
    ``all_here`` means that all ranks of the job are loaded, so groups of unknown size are complete.
    """
    rows = np.flatnonzero(label >= 0)
    order = rows[np.lexsort((calls.worker[rows], dur_ns[rows], label[rows]))]
    first = np.flatnonzero(np.diff(label[order], prepend=-1))
    shortest = order[first]  # one row per collective, in label order
    workers = np.diff(np.append(first, len(order)))
    size = np.maximum.reduceat(group_size[order], first) if len(first) else np.empty(0, np.int64)
    pairs = np.unique(codes(calls.group, calls.worker), return_index=True)[1]
    taking_part = np.bincount(calls.group[pairs])[calls.group[shortest]] if len(pairs) else size
    is_complete = np.where(size >= 1, workers >= size, (workers >= taking_part) & all_here)
    by_match = {
        "workers": workers,
        "last": calls.worker[shortest],
        "transfer_ns": dur_ns[shortest],
        "timing": np.where(is_complete, TIMINGS.index(MEASURED), TIMINGS.index(BOUND)),
    }
    columns = {name: np.full(len(label), 0 if name in ("workers", "transfer_ns") else -1) for name in by_match}
    for name, values in by_match.items():
        columns[name][rows] = values[label[rows]]
    return Waiting(**columns)


def caused_by(key: Int64, start: Int64, moving: Int64, end: Int64, last: Int64) -> tuple[Int64, Int64, Int64]:
    """Returns time ranges of wait: the worker that causes each wait, the key of the wait, and its length in ns.

    ``key`` is one worker in one step. Each call waits for worker ``last`` from ``start`` to ``moving``, and
    transfers until ``end``. Overlapping waits with the same key and cause count once. The time in which another
    call transfers is subtracted.
    """
    # Places number the distinct times of all keys; ``time`` is the time of each place.
    keys, times = np.tile(key, 3), np.concatenate((start, moving, end))
    order = order_within(keys, times)
    fresh = (np.diff(keys[order], prepend=-1) != 0) | (np.diff(times[order], prepend=0) != 0)
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(fresh) - 1
    time = times[order][fresh]
    begin, middle, finish = np.split(place, 3)
    # Cumulative time without transfer up to each place. Values between keys are meaningless and unused.
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
