"""Alignment of the traces of several ranks.

``frontend/src/lib/rankAxis.ts`` does the same for the page, which also applies the drift of clocks. In a file, a trace
is moved as a whole, so that durations and nesting stay as recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from tb_plugin.model.trace.table import TraceTable

Way = Literal["corrected clocks", "wall clocks", "the first step"]


class RankClock(msgspec.Struct, frozen=True):
    wall_ns: int | None
    """Start of the trace by its own clock, in nanoseconds since 1970."""
    first_step_ns: int
    middle_ns: int
    begins_ns: int | None = None
    """Start of the trace by corrected clocks; None if unknown."""
    drift: float = 0.0
    set: int = -1
    """Ranks with the same number have comparable clocks."""


class Aligned(msgspec.Struct, frozen=True):
    shift_ns: int
    """Start of the trace, after the start of the first one."""
    way: Way


def rank_clock(trace: TraceTable, row: Mapping[str, Any] | None) -> RankClock:
    """Returns the clock of a rank. ``row`` is its row in the table ``clocks`` of the view ``distributed``."""
    cover, steps = trace.coverage, trace.steps
    first = int(steps.start_ns[0]) if steps.recorded and len(steps.label) else 0
    own = RankClock(trace.clock_ns, first, (cover.start_ns + cover.end_ns) // 2)
    if row is None or row["trace_begins_ns"] is None or row["clock_set"] is None:
        return own
    drift = (row["clock_drift_ppb"] or 0.0) / 1e9
    return msgspec.structs.replace(own, begins_ns=row["trace_begins_ns"], drift=drift, set=row["clock_set"])


def align(ranks: Sequence[RankClock]) -> list[Aligned]:
    """Returns the place of each trace, by the best way that its clock and that of the first trace allow."""
    return [_aligned(ranks[0], rank) for rank in ranks]


def _aligned(first: RankClock, rank: RankClock) -> Aligned:
    if first.begins_ns is not None and rank.begins_ns is not None and first.set == rank.set:
        # Exact in the middle of the trace: clocks that drift are off by the same amount at both ends.
        drift = rank.middle_ns * (rank.drift - first.drift)
        return Aligned(rank.begins_ns - first.begins_ns + round(drift), "corrected clocks")
    if first.wall_ns is not None and rank.wall_ns is not None:
        return Aligned(rank.wall_ns - first.wall_ns, "wall clocks")
    return Aligned(first.first_step_ns - rank.first_step_ns, "the first step")
