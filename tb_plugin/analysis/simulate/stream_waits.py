"""Waits of one stream of a device for another."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.simulate.change import Assumption
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.trace.schema import MISSING, CallRole
from tb_plugin.model.trace.table import TraceTable


def stream_waits(
    trace: TraceTable,
    call: Int64,
    stream: Int64,
    launched: Int64,
    start: Int64,
    stop: Int64,
    idle: Bool,
    near: int,
    assume: Assumption,
) -> tuple[Int64, Int64, Bool]:
    """Returns pairs of work, of which the first may wait for the second on another stream.

    ``idle`` marks work that neither its launch nor its stream delayed. The third result marks pairs for which there is
    evidence: the host asked for the wait, or the first work is idle and starts when the second one ends. For a lower
    bound, pairs without evidence are included.
    """
    asked = np.zeros(len(call), np.bool_)
    asked[_launched_after_joins(trace, call, launched)] = True
    low = assume == Assumption.LOW
    target = np.arange(len(call)) if low else np.flatnonzero(asked | idle)
    pairs = []
    for other in range(int(stream.max(initial=-1)) + 1):
        theirs = np.flatnonzero(stream == other)
        theirs = theirs[np.argsort(stop[theirs], kind="stable")]
        mine = target[stream[target] != other]
        if not len(theirs) or not len(mine):
            continue
        place = np.searchsorted(stop[theirs], start[mine], side="right") - 1
        for _ in range(4):  # work that was launched later is not awaited
            place = np.where((place >= 0) & (launched[theirs[place]] > launched[mine]), place - 1, place)
        fits = place >= 0
        fits[fits] = launched[theirs[place[fits]]] <= launched[mine[fits]]
        source = np.where(fits, theirs[place], MISSING)
        is_near = fits & idle[mine] & (start[mine] - stop[source] <= near)
        if low:  # the next work on the stream waits as well
            order = np.lexsort((start[mine], stream[mine]))
            first = np.zeros(len(mine), np.bool_)
            first[order] = np.append(True, (np.diff(source[order]) != 0) | (np.diff(stream[mine][order]) != 0))
            fits &= first | asked[mine]
        else:
            fits &= asked[mine] | is_near
        pairs.append((mine[fits], source[fits], asked[mine[fits]] | is_near[fits]))
        if assume == Assumption.HIGH_WITH_SPACE:
            following = theirs[np.minimum(place + 1, len(theirs) - 1)]
            runs = idle[mine] & ~is_near & (start[following] < start[mine]) & (start[mine] < stop[following])
            pairs.append((mine[runs], following[runs], runs[runs]))
    if not pairs:
        return target[:0], target[:0], asked[:0]
    join, source, evident = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return join, source, evident


def _launched_after_joins(trace: TraceTable, call: Int64, launched: Int64) -> Int64:
    """Returns the first work that a thread launches after it made a stream wait for another one."""
    joins = np.flatnonzero(trace.calls_that(CallRole.JOIN))
    if not len(joins):
        return joins
    found = []
    tracks = np.append(trace.track, MISSING)[call]
    axis = np.lexsort((launched, tracks))
    for track in np.unique(trace.track[joins]).tolist():
        mine = axis[tracks[axis] == track]
        place = np.searchsorted(launched[mine], trace.start_ns[joins[trace.track[joins] == track]])
        found.append(mine[place[place < len(mine)]])
    return np.concatenate(found)
