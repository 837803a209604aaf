"""Missing calls of workers, and their estimated wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.codes import codes, occurrence
from tb_plugin.lib.quantiles import median_by
from tb_plugin.views.distributed.stragglers.calls import UNKNOWN, StragglerCalls
from tb_plugin.views.distributed.waiting import ESTIMATED, TIMINGS

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# a day, ns: longer than any call, if the usual duration is unknown
_LONGER_THAN_ANY = 10**14


@dataclass(frozen=True, eq=False)
class PairCalls:
    """Unmatched calls in groups of two, whose other worker arrived last and lacks the call."""

    row: Int64
    """Row of ``met``."""
    other: Int64
    """The worker that lacks the call."""
    wait_ns: Int64


@dataclass(frozen=True, eq=False)
class Lost:
    """Missing calls."""

    worker: Int64
    group: Int64
    time_ns: Int64
    """Time by corrected clocks; UNKNOWN without clocks."""
    wait_ns: Int64
    """Estimated wait of the worker in the call."""

    def take(self, rows: Int64) -> Lost:
        """Returns these and then the other ones."""
        return Lost(self.worker[rows], self.group[rows], self.time_ns[rows], self.wait_ns[rows])

    def and_also(self, more: Lost) -> Lost:
        """Returns these and the other ones."""
        columns = zip(vars(self).values(), vars(more).values(), strict=True)
        return Lost(*(np.concatenate(pair) for pair in columns))


_NONE = np.zeros(0, np.int64)
NONE_LOST, NONE_ALONE = Lost(_NONE, _NONE, _NONE, _NONE), PairCalls(_NONE, _NONE, _NONE)


def lost_calls(met: StragglerCalls) -> tuple[Lost, PairCalls]:
    """Returns collectives that one worker of a group lacks without having arrived last: it may have waited in them.

    Estimated wait = the last rank's gap since the previous collective minus this rank's usual gap (median over steps). Also
    returns unmatched calls in groups of two whose other worker arrived last: those that are longer than the usual transfer at
    that place by half of it.
    """
    groups = codes(met.group, met.two_ended.astype(np.int64))
    member = np.unique(codes(met.worker, groups), return_index=True)[1]
    members = np.bincount(groups[member], minlength=int(groups.max(initial=-1)) + 1)[groups]
    alone = (met.match < 0) & (members == 2) & ~met.two_ended
    lacking = (met.match >= 0) & (met.waiting.workers == members - 1) & ~met.two_ended
    lacking &= met.waiting.timing != TIMINGS.index(ESTIMATED)
    if not (alone | lacking).any():
        return NONE_LOST, NONE_ALONE
    number, gap = occurrence(codes(met.worker, met.group, met.step)), _since_own(met)
    place = codes(met.worker, met.group, number)
    usual = _medians_at(place, met.waiting.transfer_ns, met.match >= 0, _LONGER_THAN_ANY)[place]
    came_last = alone & (met.dur_ns > usual + usual // 2)
    everyone = np.bincount(groups[member], weights=met.worker[member]).astype(np.int64)[groups]
    waited = np.flatnonzero(came_last)
    rows = np.flatnonzero(lacking | (alone & ~came_last))
    _, which = np.unique(np.where(lacking, met.match, -1 - np.arange(len(met.match)))[rows], return_inverse=True)
    here = np.bincount(which, weights=met.worker[rows]).astype(np.int64)[which]
    asked = (alone[rows] | (met.waiting.last == met.worker)[rows]) & (met.time_ns[rows] != UNKNOWN) & (gap[rows] >= 0)
    rows, worker = rows[asked], (everyone[rows] - here)[asked]
    both = [
        np.concatenate(pair) for pair in ((met.worker, worker), (met.group, met.group[rows]), (number, number[rows]))
    ]
    place = codes(*both)
    own = _medians_at(place[: len(gap)], gap, gap >= 0, 0, int(place.max()) + 1)[place[len(gap) :]]
    lost = Lost(worker, met.group[rows], met.time_ns[rows], np.maximum(gap[rows] - own, 0))
    return lost, PairCalls(waited, (everyone - met.worker)[waited], (met.dur_ns - usual)[waited])


def _since_own(met: StragglerCalls) -> Int64:
    """Gap between each call and the end of the previous call of its worker and group, ns; -1 for the first one."""
    own = codes(met.worker, met.group)
    order = np.argsort(own, kind="stable")
    again = np.flatnonzero(np.diff(own[order]) == 0)
    now, before = order[again + 1], order[again]
    gap = np.full(len(own), -1)
    gap[now] = np.maximum(met.start_ns[now] - (met.start_ns + met.dur_ns)[before], 0)
    return gap


def _medians_at(place: Int64, values: Int64, known: Bool, missing: int, count: int = 0) -> Int64:
    """Median of the known values per place; ``missing`` if there is none."""
    count = max(count, int(place.max(initial=-1)) + 1)
    found = median_by(place[known], values[known], count)
    return np.where(np.bincount(place[known], minlength=count) > 0, found, missing)
