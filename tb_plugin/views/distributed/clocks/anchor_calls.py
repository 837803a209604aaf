"""Which calls tell clocks apart: ends of collectives that all ranks leave together, a bounded number of each worker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.lib.groupby import codes, group_sorted, occurrence

Int64 = npt.NDArray[np.int64]
UInt32 = npt.NDArray[np.uint32]
Bool = npt.NDArray[np.bool_]

SYNCHRONIZING = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"})
"""Collectives that no rank can leave before every rank has come, and that end on all of them at about the same time."""
MOST = 256
"""Anchors of a worker in one group, at least while it has so many: more make the fit slower, not better."""


@dataclass(frozen=True, eq=False)
class Anchors:
    """Ends of collectives: n rows."""

    worker: Int64
    match: Int64
    """0, 1, ...: rows with one number ended together."""
    end_ns: Int64
    """Since the trace of the worker began, by its own clock."""
    group: Int64
    """Code of the process group that the collective is of."""

    @property
    def matches(self) -> int:
        """Returns how many collectives there are."""
        return int(self.match.max(initial=-1)) + 1


def anchors_of(
    worker: Int64, match: Int64, group: Int64, end_ns: Int64, on_device: Bool, synchronizing: Bool
) -> Anchors:
    """Returns the anchors among calls: of worker, number of the collective (-1 = none), code of the group and end.

    A collective that some workers saw on a device and others on the host has no common end: the host is done earlier.
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
    """Which rows to keep: collectives spread over the time of each worker and group, whole ones.

    All workers want the same collectives first, so that few are kept though each has lost others; who has few keeps all.
    """
    if not len(match):
        return np.zeros(0, np.bool_)
    matches = group_sorted(match)
    first, number = matches.first, matches.of
    turn = _turns(occurrence(group[first]))
    mine = codes(worker, group)
    share = MOST / np.bincount(mine)[mine]
    wanted = np.zeros(len(first), np.bool_)
    wanted[number[turn[number] < share]] = True
    kept: Bool = wanted[number]
    return kept


def _turns(ordinal: Int64) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1); those below any limit lie evenly among the ordinals, whose bits they mirror (van der Corput)."""
    bits: UInt32 = ordinal.astype(np.uint32)
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        bits = ((bits >> np.uint32(shift)) & np.uint32(mask)) | ((bits & np.uint32(mask)) << np.uint32(shift))
    return bits / 2.0**32
