"""Anchors for clock alignment: ends of synchronizing collectives."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import codes, group_sorted, occurrence

Int64 = npt.NDArray[np.int64]
UInt32 = npt.NDArray[np.uint32]
Bool = npt.NDArray[np.bool_]

# no rank can leave before all ranks have arrived, and all ranks leave at about the same time
SYNCHRONIZING = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"})
# target number of anchors per worker and group; more only slow the fit
MOST = 256


class Anchors(msgspec.Struct, frozen=True, eq=False):
    """End times of the calls of collectives: one row per call."""

    worker: Int64
    match: Int64
    """Index of the collective, from 0. All calls of one collective end at the same real time."""
    end_ns: Int64
    """End of the call since the start of the worker's trace, by the worker's clock."""
    group: Int64

    @property
    def matches(self) -> int:
        return int(self.match.max(initial=-1)) + 1


def anchors_of(
    worker: Int64, match: Int64, group: Int64, end_ns: Int64, on_device: Bool, synchronizing: Bool
) -> Anchors:
    """Returns the calls whose ends are anchors.

    ``match`` is the index of each call's collective (-1 = none). A collective is not used if some workers recorded
    its end on the device and others on the host.
    """
    count = int(match.max(initial=-1)) + 1
    known = match >= 0
    calls, device = (np.bincount(match[known & rows], minlength=count) for rows in (True, on_device))
    alike = (device == 0) | (device == calls)
    rows = np.flatnonzero(known & synchronizing)
    rows = rows[alike[match[rows]]]
    rows = rows[_thinned(worker[rows], match[rows], group[rows])]
    number = group_sorted(match[rows]).of
    several = np.bincount(number)[number] > 1 if len(rows) else np.zeros(0, np.bool_)
    rows = rows[several]
    return Anchors(worker[rows], group_sorted(match[rows]).of, end_ns[rows], group[rows])


def _thinned(worker: Int64, match: Int64, group: Int64) -> Bool:
    """Marks the calls to use: complete collectives, evenly spread over time for each worker and group.

    All workers prefer the same collectives, so workers that lost different calls still share anchors.
    """
    if not len(match):
        return np.zeros(0, np.bool_)
    matches = group_sorted(match)
    first, number = matches.first, matches.of
    turn = _evenly_spread(occurrence(group[first]))
    mine = codes(worker, group)
    share = MOST / np.bincount(mine)[mine]
    wanted = np.zeros(len(first), np.bool_)
    wanted[number[turn[number] < share]] = True
    is_kept: Bool = wanted[number]
    return is_kept


def _evenly_spread(ordinal: Int64) -> npt.NDArray[np.float64]:
    """Returns the van der Corput sequence in [0, 1).

    For any limit, the ordinals whose values are below the limit are evenly spread.
    """
    bits: UInt32 = ordinal.astype(np.uint32)
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        bits = ((bits >> np.uint32(shift)) & np.uint32(mask)) | ((bits & np.uint32(mask)) << np.uint32(shift))
    return bits / 2.0**32
