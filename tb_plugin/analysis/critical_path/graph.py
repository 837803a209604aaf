"""Dependencies between threads and streams.

A *chain* is a thread or a hardware stream. Its events run one after the other. A *dependency* leads from a time on one
chain to a time on another chain. The *lag* of a chain or a dependency is time that no recorded work explains.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.backward import works_for
from tb_plugin.analysis.blocking_calls import drains_device, waits_for_device
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.launches.phases import LEAST_OUTLIER_NS, launch_phases, usual_latency
from tb_plugin.analysis.launches.unrecorded_work import NEAR_NS, unrecorded_work
from tb_plugin.analysis.simulate.change import Assumption
from tb_plugin.analysis.simulate.dependencies import device_waits, last_of_streams
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import Whole, distinct_values
from tb_plugin.lib.intervals import EMPTY, Ranges, join, subtract, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable

# Longer time of a thread between two recorded calls is a lag. HTA uses the same limit between kernels.
MAX_GAP_NS = 1_500_000
HOST_KINDS = (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.PYTHON, EventKind.MODULE, EventKind.RUNTIME)
# Earlier or later than any event, and less than half of NONE in longest.py.
FAR = np.int64(1) << 57


class Link(IntEnum):
    """Kind of a dependency."""

    LAUNCH = 0
    """From the end of a launch call to its work."""
    STREAM = 1
    """From the end of work on one stream to work on another stream."""
    WAIT = 2
    """From the end of device work to the end of the call that waits for this work."""
    THREAD = 3
    """From one thread to another: backward passes, and queues of operators."""
    OPEN_CALL = 4
    """From the start of a launch call to work that starts during the call."""


class Links(msgspec.Struct, frozen=True, eq=False):
    """Dependencies, one value each. Times are in nanoseconds."""

    kind: npt.NDArray[np.uint8]
    tail: Int64
    """Chain on which the dependency starts."""
    tail_ns: Int64
    head: Int64
    head_ns: Int64
    lag_ns: Int64
    """Part of the time from tail to head that the dependency does not explain. It lies at the start of the dependency."""
    row: Int64
    """Event to which the time of the dependency is attributed."""

    def take(self, chosen: npt.NDArray[np.generic]) -> Links:
        return Links(*(getattr(self, name)[chosen] for name in self.__struct_fields__))


class Graph(msgspec.Struct, frozen=True, eq=False):
    links: Links
    lags: Mapping[int, Ranges]
    """For each chain, the ranges in which it waits or in which nothing is recorded."""
    dropped: int
    """Number of dependencies that would lead backward in time."""
    inferred: int
    """Number of dependencies between streams, inferred from times."""

    def lags_of(self, chain: int) -> Ranges:
        return self.lags.get(chain, EMPTY)


class _Parts:
    """Dependencies and lags while they are collected."""

    def __init__(self) -> None:
        none = np.empty(0, np.int64)
        self.links = [Links(np.empty(0, np.uint8), *[none] * (len(Links.__struct_fields__) - 1))]
        self.lags: dict[int, list[Ranges]] = {}

    def link(
        self, kind: Link, tail: Whole, tail_ns: Int64, head: Whole, head_ns: Int64, lag_ns: Int64, row: Whole
    ) -> None:
        lag_ns = np.clip(lag_ns, 0, np.maximum(head_ns - tail_ns, 0))
        columns = (np.asarray(each, np.int64) for each in (tail, tail_ns, head, head_ns, lag_ns, row))
        self.links.append(Links(np.full(len(tail), kind, np.uint8), *columns))

    def lag(self, chain: Whole, start: Int64, end: Int64) -> None:
        for each in np.unique(chain).tolist():
            mine = chain == each
            self.lags.setdefault(int(each), []).append(union(start[mine], end[mine]))


@cached_by_argument
def dependencies(trace: TraceTable) -> Graph:
    """Returns the chains of the trace and the dependencies between them."""
    parts = _Parts()
    inferred = _device_work(trace, parts)
    _host_waits(trace, parts)
    _threads(trace, parts)
    links = Links(*(np.concatenate([getattr(each, name) for each in parts.links]) for name in Links.__struct_fields__))
    is_forward = np.where(links.kind == Link.THREAD, links.head_ns > links.tail_ns, links.head_ns >= links.tail_ns)
    lags = {chain: join(*ranges) for chain, ranges in parts.lags.items()}
    return Graph(links.take(is_forward), lags, int((~is_forward).sum()), inferred)


def _device_work(trace: TraceTable, parts: _Parts) -> int:
    """Adds launches, streams and dependencies between streams. Returns the number of inferred dependencies."""
    launches = launch_phases(trace)
    row = launches.row
    if not len(row):
        return 0
    stream = hardware_streams(trace).of[row].astype(np.int64)
    start, end = trace.start_ns[row], trace.ends(row)
    usual = np.zeros(len(row), np.int64)
    for device in np.unique(trace.device[row]).tolist():
        mine = trace.device[row] == device
        usual[mine] = np.clip(usual_latency(trace, device)[mine], LEAST_OUTLIER_NS, NEAR_NS)
    order = np.lexsort((start, stream))
    first = np.append(True, np.diff(stream[order]) != 0)
    reach = np.empty(len(row), np.int64)
    reach[order] = _latest_end(end[order], first)
    call, known = launches.call, launches.call != MISSING
    called, returned = trace.start_ns[call], trace.ends(call)
    # The call may still run when its work starts: a graph launch, or a call that waits for its own copy.
    during = known & (start < returned)
    queued = np.where(during, reach > called, launches.is_queued | ~known)
    follows = queued & (start - reach <= np.where(known, usual, NEAR_NS))
    # Work of one graph launch follows the work before it, also while the call still runs.
    same_call = np.zeros(len(row), np.bool_)
    same_call[order[1:]] = (call[order[1:]] == call[order[:-1]]) & ~first[1:]
    follows |= during & same_call & (start >= reach)
    waits = waits_for_device(trace)[call]
    unusual = np.where(waits, np.maximum(start - called - NEAR_NS, 0), 0)
    lag_during = np.where(follows, np.maximum(reach - called, 0), unusual)
    lag = np.where(during, lag_during, launches.queue_ns + np.maximum(launches.latency_ns - usual, 0))
    for kind, chosen, since in ((Link.LAUNCH, known & ~during, returned), (Link.OPEN_CALL, during, called)):
        at = np.flatnonzero(chosen)
        parts.link(kind, trace.track[call[at]], since[at], stream[at], start[at], lag[at], call[at])
    gap = (start > reach) & ~follows
    for device in np.unique(trace.device[row[gap]]).tolist():
        mine = gap & (trace.device[row] == device)
        for each in np.unique(stream[mine]).tolist():
            of_stream = mine & (stream == each)
            idle = subtract(union(reach[of_stream], start[of_stream]), unrecorded_work(trace, device))
            parts.lags.setdefault(each, []).append(idle)
    delayed, inferred = _simulated_waits(trace, parts)
    unexplained = gap & (~known | (lag > 0)) & ~np.isin(row, delayed)
    return inferred + _near_ends(trace, parts, np.flatnonzero(unexplained))


def _latest_end(stop: Int64, first: npt.NDArray[np.bool_]) -> Int64:
    """Returns the latest end of earlier work of the same stream, per row sorted by stream and start."""
    number = np.cumsum(first) - 1
    low = int(stop.min())
    span = int(stop.max()) - low + 1
    reach = np.maximum.accumulate(stop - low + number * span) - number * span + low
    return np.where(first, -FAR, np.append(0, reach)[:-1])


def _simulated_waits(trace: TraceTable, parts: _Parts) -> tuple[Int64, int]:
    """Adds the waits between streams that the simulation knows. Returns the rows that waits delayed, and the number of
    inferred waits among them.
    """
    from tb_plugin.analysis.simulate.stream_waits import recorded_waits
    from tb_plugin.analysis.simulate.streams import streams_of

    low, high = int(trace.start_ns.min(initial=0)), int(trace.end_ns.max(initial=0)) + 1
    streams, delayed = hardware_streams(trace).of, [np.empty(0, np.int64)]
    for device in device_busy(trace):
        work = streams_of(trace, device, low, high, Assumption.EXPECTED)
        row, source = work.row[work.join], work.row[work.source]
        done, start = trace.ends(source), trace.start_ns[row]
        lag = np.minimum(work.join_ns, start - done)
        parts.link(Link.STREAM, streams[source], done, streams[row], start, lag, row)
        delayed.append(row[lag == 0])
    rows = np.concatenate(delayed)
    return rows, int((~np.isin(rows, recorded_waits(trace).row)).sum())


def _near_ends(trace: TraceTable, parts: _Parts, at: Int64) -> int:
    """Adds dependencies on work of other streams of the device that ended just before these rows of device work.

    These rows have no other explanation, so the limit is wider than in the simulation, whose savings need stronger
    evidence. A recording of HTA has 30 us between streams (``mtia_inference_rank_0``).
    """
    launches = launch_phases(trace)
    stream = hardware_streams(trace).of[launches.row].astype(np.int64)
    device = trace.device[launches.row]
    count = 0
    for each in np.unique(device[at]).tolist():
        mine = at[device[at] == each]
        source = np.flatnonzero(device == each)
        source = source[np.argsort(trace.ends(launches.row[source]), kind="stable")]
        ended = trace.ends(launches.row[source])
        begin = trace.start_ns[launches.row[mine]]
        place = np.searchsorted(ended, begin, side="right") - 1
        for _ in range(8):  # earlier work of the same stream does not explain the delay
            place = np.where((place >= 0) & (stream[source[place]] == stream[mine]), place - 1, place)
        other = (place >= 0) & (stream[source[place]] != stream[mine]) & (begin - ended[place] <= NEAR_NS)
        mine, place = mine[other], place[other]
        none = np.zeros(len(mine), np.int64)
        parts.link(
            Link.STREAM, stream[source[place]], ended[place], stream[mine], begin[other], none, launches.row[mine]
        )
        count += len(mine)
    return count


def _host_waits(trace: TraceTable, parts: _Parts) -> None:
    streams, launches = hardware_streams(trace).of, launch_phases(trace)
    low, high = int(trace.start_ns.min(initial=0)), int(trace.end_ns.max(initial=0))
    for device in device_busy(trace):
        waits, awaited = device_waits(trace, device, low, high)
        known = awaited != MISSING
        row, awaited = waits.row[known], awaited[known]
        done = np.minimum(waits.done_ns[known], waits.end_ns[known])
        track, start, end = trace.track[row].astype(np.int64), trace.start_ns[row], trace.ends(row)
        blocks = done > start
        parts.lag(track[blocks], start[blocks], done[blocks])
        # If the work ended before the call, it could have ended later without effect.
        parts.link(Link.WAIT, streams[awaited], done, track, end, np.maximum(start - done, 0), row)
        # A call that waits for all streams also depends on the last work of each other stream.
        drains = np.flatnonzero(drains_device(trace)[row])
        reached = np.maximum(start, done)[drains]
        work = launches.row[(trace.device[launches.row] == device) & (launches.call != MISSING)]
        _, stream = np.unique(streams[work], return_inverse=True)
        last = last_of_streams(start[drains], reached, stream, trace.start_ns[trace.launch[work]], trace.ends(work))
        call, each = np.nonzero((last != MISSING) & (streams[work][last] != streams[awaited[drains], None]))
        last, reached, call = work[last[call, each]], reached[call], drains[call]
        ended = trace.ends(last)
        parts.link(Link.WAIT, streams[last], ended, track[call], end[call], reached - ended, row[call])


def _threads(trace: TraceTable, parts: _Parts) -> None:
    """Adds the time in which threads have no recorded call, and the dependencies between threads."""
    host = np.flatnonzero(of_kind(trace.kind, *HOST_KINDS))
    helpers = {helper: int(of) for helper, of in enumerate(works_for(trace).tolist()) if of != helper}
    requested = _requests(trace, parts)
    for track in np.unique(trace.track[host]).tolist():
        rows = host[trace.track[host] == track]
        busy = union(trace.start_ns[rows], trace.ends(rows))
        before, after = np.append(-FAR, busy.end), np.append(busy.start, FAR)
        is_lag = after - before > MAX_GAP_NS
        if track in helpers:
            is_lag = _backward_passes(trace, parts, track, helpers[track], busy)
        parts.lag(np.full(int(is_lag.sum()), track), before[is_lag], after[is_lag])
        if track in requested:
            start, since = requested[track]
            place = np.searchsorted(busy.start, start)
            # A call that starts after a gap and was requested during the gap: the thread was idle.
            idle = (np.append(busy.start, FAR)[place] == start) & (since > before[place])
            parts.lag(np.full(int(idle.sum()), track), before[place[idle]], start[idle])


def _backward_passes(
    trace: TraceTable, parts: _Parts, helper: int, waiting: int, busy: Ranges
) -> npt.NDArray[np.bool_]:
    """Adds the backward passes of an autograd thread. Returns the gaps between busy ranges that lie between passes.

    The waiting thread makes no recorded call during a pass.
    """
    rows = np.flatnonzero(of_kind(trace.kind, *HOST_KINDS) & (trace.track == waiting))
    points = distinct_values(trace.start_ns[rows], trace.ends(rows))
    place = np.searchsorted(points, busy.start)
    first = np.append(True, np.diff(place) > 0)[: len(place)]
    last = np.append(first[1:], True)[: len(place)]
    begin, end, place = busy.start[first], busy.end[last], place[first]
    inside = (place > 0) & (place < len(points))
    begin, end, place = begin[inside], end[inside], place[inside]
    head_row = np.flatnonzero(trace.track == helper)
    head_row = head_row[np.searchsorted(trace.start_ns[head_row], begin)]
    none = np.zeros(len(begin), np.int64)
    parts.link(
        Link.THREAD, np.full(len(begin), waiting), points[place - 1], np.full(len(begin), helper), begin, none, head_row
    )
    returns = points[place] >= end
    parts.lag(np.full(int(returns.sum()), waiting), begin[returns], end[returns])
    parts.link(
        Link.THREAD, np.full(int(returns.sum()), helper), end[returns], np.full(int(returns.sum()), waiting),
        points[place[returns]], none[returns], head_row[returns],
    )  # fmt: skip
    return np.append(first, True)


def _requests(trace: TraceTable, parts: _Parts) -> dict[int, tuple[Int64, Int64]]:
    """Adds recorded arrows between threads. Returns, by thread, when requested work starts, and when it was requested."""
    tail, head = trace.arrows.tail.astype(np.int64), trace.arrows.head.astype(np.int64)
    between = trace.track[tail] != trace.track[head]
    between &= of_kind(trace.kind[tail], *HOST_KINDS) & of_kind(trace.kind[head], *HOST_KINDS)
    between &= trace.start_ns[head] > trace.start_ns[tail]
    tail, head = tail[between], head[between]
    found = {}
    for track in np.unique(trace.track[head]).tolist():
        mine = trace.track[head] == track
        source, target = tail[mine], head[mine]
        rows = np.flatnonzero(of_kind(trace.kind, *HOST_KINDS) & (trace.track == track))
        reach = np.append(-FAR, np.maximum.accumulate(trace.ends(rows)))
        reach = reach[np.searchsorted(trace.start_ns[rows], trace.start_ns[target])]
        start, since = trace.start_ns[target], trace.start_ns[source]
        # The thread was idle, so it waited for the request. Otherwise, the request waited for the thread.
        lag = np.where(since >= reach, 0, start - since)
        parts.link(Link.THREAD, trace.track[source], since, np.full(len(source), track), start, lag, target)
        found[int(track)] = (start, since)
    return found
