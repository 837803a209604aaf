"""Waits of one stream of a device for another."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.busy_intervals import covered_work
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.launches.recorded import STREAM_WAIT
from tb_plugin.analysis.simulate.change import Assumption
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import places_of
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.extra_columns import AWAITED_STREAM, RECORDING_CALL, integers_of
from tb_plugin.model.trace.links import first_in_process
from tb_plugin.model.trace.schema import MISSING, CallRole, EventKind
from tb_plugin.model.trace.table import TraceTable


def stream_waits(
    trace: TraceTable, row: Int64, stream: Int64, launched: Int64, idle: Bool, near: int, assume: Assumption
) -> tuple[Int64, Int64, Bool]:
    """Returns pairs of work (indices of ``row``), of which the first may wait for the second on another stream.

    ``idle`` marks work that neither its launch nor its stream delayed. The third result marks pairs for which there is
    evidence: the profiler recorded the wait, the host asked for a wait, or the first work is idle and starts when the
    second one ends. For a lower bound, pairs without evidence are included.
    """
    call, start, stop = trace.launch[row], trace.start_ns[row], trace.ends(row)
    recorded, place = recorded_waits(trace), places_of(row, len(trace))
    join, source = (place[rows].astype(np.int64) for rows in (recorded.row, recorded.awaited))
    del place
    both = (join != MISSING) & (source != MISSING)
    join, source = join[both], source[both]
    pairs = [(join, source, both[both])]
    asked, idle = np.zeros(len(row), np.bool_), idle.copy()
    asked[_launched_after_joins(trace, call, launched, recorded.call)] = True
    idle[join[start[join] - stop[source] <= near]] = False
    low = assume == Assumption.LOW
    target = np.arange(len(row)) if low else np.flatnonzero(asked | idle)
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
    join, source, evident = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return join, source, evident


class RecordedWaits(msgspec.Struct, frozen=True, eq=False):
    """Waits of work for work of another stream, as the profiler recorded them."""

    row: Int64
    awaited: Int64
    """Row of the work that each ``row`` waits for."""
    call: Int64
    """Rows of the calls that made a stream wait; also calls without work before the event or after the wait."""


@cached_by_argument
def recorded_waits(trace: TraceTable) -> RecordedWaits:
    """Returns the waits for events whose stream and ``cudaEventRecord`` call are recorded.

    The first work that is launched on the waiting stream after the wait starts after the last work that was launched on
    the awaited stream before the event was recorded.
    """
    streams, none = hardware_streams(trace), np.empty(0, np.int64)
    numbers, records = (integers_of(trace.others, key) for key in (AWAITED_STREAM, RECORDING_CALL))
    if numbers is None or records is None:
        return RecordedWaits(none, none, none)
    wait, at_number, at_record = np.intersect1d(numbers[0], records[0], assume_unique=True, return_indices=True)
    number, correlation = numbers[1][at_number], records[1][at_record]
    number_of = {str(each): each for each in np.unique(number).tolist() if each >= 0}
    calls = np.flatnonzero(trace.kind == EventKind.RUNTIME)
    asking, recording = (
        first_in_process(trace.correlation[calls], calls, ids, trace.process, wait.astype(np.int64))
        for ids in (trace.correlation[wait], correlation)
    )
    row = covered_work(trace)
    row = row[trace.launch[row] != MISSING]
    stream, launched = streams.of[row], trace.start_ns[trace.launch[row]]
    order = np.lexsort((trace.start_ns[row], launched, stream))
    named = trace.strings.where(lambda text: text.startswith(STREAM_WAIT))[trace.name[wait]]
    named &= (trace.kind[wait] == EventKind.SYNC) & (asking != MISSING) & (recording != MISSING)
    named &= number >= 0
    pids = np.array([track.pid for track in trace.tracks], np.object_)[trace.track[wait]]
    work, awaited = np.full(len(wait), MISSING, np.int64), np.full(len(wait), MISSING, np.int64)
    for each in np.unique(stream).tolist():
        mine = order[stream[order] == each]
        waiting = np.flatnonzero(named & (streams.of[wait] == each))
        place = np.searchsorted(launched[mine], trace.start_ns[asking[waiting]])
        work[waiting] = np.append(row[mine], MISSING)[place]
        pid = trace.tracks[trace.track[row[mine[0]]]].pid
        recorded = np.flatnonzero(named & (number == number_of.get(streams.names[each], MISSING)) & (pids == pid))
        place = np.searchsorted(launched[mine], trace.start_ns[recording[recorded]])
        awaited[recorded] = np.append(MISSING, row[mine])[place]
    both = (work != MISSING) & (awaited != MISSING) & (streams.of[work] != streams.of[awaited])
    both &= trace.ends(awaited) <= trace.start_ns[work]
    return RecordedWaits(work[both], awaited[both], asking[named].astype(np.int64))


def _launched_after_joins(trace: TraceTable, call: Int32, launched: Int64, recorded: Int64) -> Int64:
    """Returns the first work that a thread launches after it made a stream wait for another one, except for recorded
    waits.
    """
    joins = np.setdiff1d(np.flatnonzero(trace.calls_that(CallRole.JOIN)), recorded)
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
