"""Replayed work of a choice of steps, and its sums by what stands behind it: what tests compare with the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.replays import replay_numbers, replays_of
from tb_plugin.analysis.selection import Selection
from tb_plugin.lib.groupby import group, sum_by
from tb_plugin.model.trace.graph_capture import Scopes
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
UInt8 = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Sums:
    """Of k owners each: pieces of work, replays that brought any, and their summed durations in nanoseconds."""

    pieces: Int64
    replays: Int64
    device_ns: Int64


@dataclass(frozen=True, eq=False)
class Replayed:
    """Chosen pieces of replayed work, by row."""

    rows: Int64
    scope: Int32
    """What stands behind each: a position in ``scopes``, -1 = not known."""
    way: UInt8
    module_way: UInt8
    replay: Int64
    """Position in ``replays_of``."""
    graph: Int32
    dur_ns: Int64
    scopes: Scopes

    def sums(self, owner: npt.NDArray[np.integer], count: int) -> Sums:
        """Returns the sums of each of ``count`` owners; ``owner`` has one for each piece, -1 = none."""
        known = np.flatnonzero(owner != MISSING)
        of = np.asarray(owner[known], np.int64)
        pairs = group(of, self.replay[known]).first
        one = np.ones(len(known), np.int64)
        return Sums(sum_by(of, one, count), sum_by(of[pairs], one[pairs], count), sum_by(owner, self.dur_ns, count))

    def by_scope(self) -> Sums:
        """Returns the sums of each scope itself, without what lies in those inside of it."""
        return self.sums(self.scope, len(self.scopes))


def replayed_in(trace: TraceTable, selection: Selection) -> Replayed:
    """Returns the replayed work of a choice, with what stands behind it."""
    origins = origins_of(trace)
    chosen = selection.rows[origins.work]
    rows = origins.work[chosen]
    number = replay_numbers(trace, rows)
    return Replayed(
        rows=rows,
        scope=origins.scope[chosen],
        way=origins.way[chosen],
        module_way=origins.module_way[chosen],
        replay=number,
        graph=replays_of(trace).graph[number],
        dur_ns=trace.dur_ns[rows],
        scopes=origins.scopes,
    )
