"""Missing calls of workers, and the estimated wait in these calls."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import astuple

from tb_plugin.lib.groupby import codes, median_by, occurrence
from tb_plugin.views.distributed.stragglers.calls import UNKNOWN, StragglerCalls
from tb_plugin.views.distributed.waiting import ESTIMATED, TIMINGS

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# in ns (a day); replaces an unknown usual duration
_LONGER_THAN_ANY = 10**14


class PairCalls(msgspec.Struct, frozen=True, eq=False):
    """Unmatched calls in groups of two workers. The other worker lacks the call and presumably arrived last."""

    row: Int64
    other: Int64
    """Worker whose call is missing."""
    wait_ns: Int64


class Lost(msgspec.Struct, frozen=True, eq=False):
    """Missing calls: one row per call."""

    worker: Int64
    group: Int64
    time_ns: Int64
    """Time of the call by corrected clocks. UNKNOWN without clocks."""
    wait_ns: Int64
    """Estimated wait in the missing call."""

    def take(self, rows: Int64) -> Lost:
        return Lost(self.worker[rows], self.group[rows], self.time_ns[rows], self.wait_ns[rows])

    def and_also(self, more: Lost) -> Lost:
        columns = zip(astuple(self), astuple(more), strict=True)
        return Lost(*(np.concatenate(pair) for pair in columns))


_EMPTY = np.zeros(0, np.int64)
NONE_LOST, NONE_ALONE = Lost(_EMPTY, _EMPTY, _EMPTY, _EMPTY), PairCalls(_EMPTY, _EMPTY, _EMPTY)


def lost_calls(calls: StragglerCalls) -> tuple[Lost, PairCalls]:
    """Finds collectives whose call is missing on exactly one worker of a group.

    The first result has workers that presumably did not arrive last and may have waited. The estimated wait is the
    last rank's gap since its previous collective, minus the worker's median gap over steps. The second result has
    calls in groups of two that are much longer than the median transfer, so the other worker presumably arrived
    last.
    """
    groups = codes(calls.group, calls.two_ended.astype(np.int64))
    member = np.unique(codes(calls.worker, groups), return_index=True)[1]
    members = np.bincount(groups[member], minlength=int(groups.max(initial=-1)) + 1)[groups]
    is_unmatched = (calls.match < 0) & (members == 2) & ~calls.two_ended
    is_incomplete = (calls.match >= 0) & (calls.waiting.workers == members - 1) & ~calls.two_ended
    is_incomplete &= calls.waiting.timing != TIMINGS.index(ESTIMATED)
    if not (is_unmatched | is_incomplete).any():
        return NONE_LOST, NONE_ALONE
    number, gap = occurrence(codes(calls.worker, calls.group, calls.step)), _gap_before(calls)
    place = codes(calls.worker, calls.group, number)
    usual = _medians_at(place, calls.waiting.transfer_ns, calls.match >= 0, _LONGER_THAN_ANY)[place]
    came_last = is_unmatched & (calls.dur_ns > usual + usual // 2)
    everyone = np.bincount(groups[member], weights=calls.worker[member]).astype(np.int64)[groups]
    waited = np.flatnonzero(came_last)
    rows = np.flatnonzero(is_incomplete | (is_unmatched & ~came_last))
    _, which = np.unique(
        np.where(is_incomplete, calls.match, -1 - np.arange(len(calls.match)))[rows], return_inverse=True
    )
    present = np.bincount(which, weights=calls.worker[rows]).astype(np.int64)[which]
    is_known = (
        (is_unmatched[rows] | (calls.waiting.last == calls.worker)[rows])
        & (calls.time_ns[rows] != UNKNOWN)
        & (gap[rows] >= 0)
    )
    rows, worker = rows[is_known], (everyone[rows] - present)[is_known]
    both = [
        np.concatenate(pair)
        for pair in ((calls.worker, worker), (calls.group, calls.group[rows]), (number, number[rows]))
    ]
    place = codes(*both)
    own = _medians_at(place[: len(gap)], gap, gap >= 0, 0, int(place.max()) + 1)[place[len(gap) :]]
    lost = Lost(worker, calls.group[rows], calls.time_ns[rows], np.maximum(gap[rows] - own, 0))
    return lost, PairCalls(waited, (everyone - calls.worker)[waited], (calls.dur_ns - usual)[waited])


def _gap_before(calls: StragglerCalls) -> Int64:
    """Returns the time from the end of the previous call of the same worker and group to each call, ns.

    The time is -1 for the first call.
    """
    own = codes(calls.worker, calls.group)
    order = np.argsort(own, kind="stable")
    again = np.flatnonzero(np.diff(own[order]) == 0)
    now, before = order[again + 1], order[again]
    gap = np.full(len(own), -1)
    gap[now] = np.maximum(calls.start_ns[now] - (calls.start_ns + calls.dur_ns)[before], 0)
    return gap


def _medians_at(place: Int64, values: Int64, known: Bool, missing: int, count: int = 0) -> Int64:
    """Returns the median of the known values at each place. A place without known values gets ``missing``."""
    count = max(count, int(place.max(initial=-1)) + 1)
    found = median_by(place[known], values[known], count)
    return np.where(np.bincount(place[known], minlength=count) > 0, found, missing)
