"""Time of critical paths by event, and slack."""

from __future__ import annotations

from enum import IntEnum

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.critical_path.graph import HOST_KINDS, dependencies
from tb_plugin.analysis.critical_path.longest import LongestPaths, Windows, longest_paths
from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.launches.unrecorded_work import any_unrecorded
from tb_plugin.analysis.range_patterns import DATALOADER, name_matches, search_pattern
from tb_plugin.analysis.selection import steps_of_rows
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group
from tb_plugin.lib.intervals import Ranges, intersect, join, measure_within, subtract, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import latest_open


class Part(IntEnum):
    """Kind of time on the critical path."""

    COMPUTE = 0
    COMMUNICATION = 1
    COPY = 2
    BETWEEN_KERNELS = 3
    """Queued work waits for the work before it, or for another stream."""
    LAUNCH = 4
    """Launch calls, and the time from the end of a launch call to the start of its work."""
    DATA_LOADING = 5
    OPERATOR = 6
    RUNTIME = 7
    """Calls of the runtime or driver, without the time in which they wait for work on the path."""
    PYTHON = 8
    """Python, annotations, and time between recorded calls."""
    UNRECORDED = 9
    """A device runs work that was launched before the recording."""
    UNCOVERED = 10
    """Not on the path: no recorded work explains this time."""


class CriticalTime(msgspec.Struct, frozen=True, eq=False):
    """Time on the critical path, one value per piece: a time range of one event."""

    step: Int64
    part: npt.NDArray[np.uint8]
    row: Int64
    """Event of the piece; -1 = none."""
    start_ns: Int64
    end_ns: Int64
    chain: Int64
    """Thread or stream of the piece; -1 for a dependency."""

    @property
    def ns(self) -> Int64:
        return self.end_ns - self.start_ns

    def take(self, chosen: npt.NDArray[np.generic]) -> CriticalTime:
        return CriticalTime(*(getattr(self, name)[chosen] for name in self.__struct_fields__))


@cached_by_argument
def critical_paths(trace: TraceTable) -> LongestPaths:
    """Returns the critical path of each run of adjacent steps (see ``runs_of_steps``).

    Work of a step may overlap the next step, so the paths of single steps do not show what limits several steps.
    """
    return _longest_paths(trace, runs_of_steps(trace))


@cached_by_argument
def paths_of_steps(trace: TraceTable) -> LongestPaths:
    """Returns the critical path of each single step."""
    return _longest_paths(trace, np.arange(len(trace.steps.label)))


def runs_of_steps(trace: TraceTable) -> Int64:
    """Returns the number of the run of each step. A run consists of steps without gaps between them."""
    steps = trace.steps
    return np.cumsum(np.append(0, steps.start_ns[1:] > steps.end_ns[:-1]))[: len(steps.label)]


def _longest_paths(trace: TraceTable, run: Int64) -> LongestPaths:
    steps = trace.steps
    first, last = np.unique(run, return_index=True)[1], np.searchsorted(run, np.unique(run), side="right") - 1
    chains = _last_chains(trace)
    windows = Windows(
        steps.start_ns[first],
        steps.end_ns[last],
        tuple(chains[at] for at in last.tolist()),
        _work_ends(trace, run, last),
    )
    return longest_paths(dependencies(trace), windows)


def _work_ends(trace: TraceTable, run: Int64, last: Int64) -> list[tuple[int, int, int]]:
    """Returns the last end of the work of each run on each stream."""
    rows = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))
    step = _steps_of(trace, rows)
    rows, of = rows[step != MISSING], run[step[step != MISSING]]
    chain, end = hardware_streams(trace).of[rows], np.minimum(trace.ends(rows), trace.steps.end_ns[last][of])
    groups = group(of, chain)
    latest = np.full(len(groups), np.iinfo(np.int64).min)
    np.maximum.at(latest, groups.of, end)
    first = groups.first
    begins = trace.steps.start_ns[np.searchsorted(run, of[first])]
    ends = zip(of[first].tolist(), chain[first].tolist(), latest.tolist(), (latest >= begins).tolist(), strict=True)
    return [(number, on, at) for number, on, at, is_inside in ends if is_inside]


def _steps_of(trace: TraceTable, rows: Int64) -> Int64:
    """Returns the step of each event; -1 = none. Without recorded steps, there is one step."""
    return steps_of_rows(trace)[rows] if trace.steps.recorded else np.zeros(len(rows), np.int64)


def _last_chains(trace: TraceTable) -> tuple[tuple[int, ...], ...]:
    """Returns, for each step, the streams or threads whose work ends with the step."""
    host = np.flatnonzero(of_kind(trace.kind, *HOST_KINDS))
    tracks, count = np.unique(trace.track[host], return_counts=True)
    main = int(tracks[np.argmax(count)]) if len(tracks) else 0
    rows = np.concatenate((host, np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK))))
    rows = rows[np.isin(trace.ends(rows), trace.steps.end_ns)]
    ends, is_device = trace.ends(rows), of_kind(trace.kind[rows], *DEVICE_WORK)
    chains = hardware_streams(trace).of[rows]
    found = []
    for end, host_end in zip(trace.steps.end_ns.tolist(), trace.steps.host_end_ns.tolist(), strict=True):
        some = chains[(ends == end) & (is_device == (end > host_end))]
        found.append(tuple(np.unique(some).tolist()) or (main,))
    return tuple(found)


@cached_by_argument
def critical_time(trace: TraceTable) -> CriticalTime:
    """Returns the time of all steps by event: the critical path, and the time that it does not explain.

    The durations of the pieces of a step add up to the step time.
    """
    paths = critical_paths(trace)
    path, graph = paths.path, dependencies(trace)
    on_chain = path.chain != MISSING
    pieces = [_of_links(trace, paths)]
    for chain in np.unique(path.chain[on_chain]).tolist():
        mine = path.chain == chain
        start, end, lags = path.start_ns[mine], path.end_ns[mine], graph.lags_of(chain)
        if chain < len(trace.tracks) and not trace.tracks[chain].is_device:
            pieces.append(_on_thread(trace, chain, union(start, end), lags))
        else:
            pieces.append(_on_stream(trace, chain, union(start, end), lags))
    part, row, chain, start, end = (np.concatenate([piece[i] for piece in pieces]) for i in range(5))
    order = np.flatnonzero(end > start)
    order = order[np.argsort(start[order], kind="stable")]
    # Pieces of a chain may cross the border of two steps.
    of, step, start, end = _inside(Ranges(trace.steps.start_ns, trace.steps.end_ns), start[order], end[order])
    at = order[of]
    return _with_rest(trace, CriticalTime(step, part[at].astype(np.uint8), row[at], start, end, chain[at]))


_Piece = tuple[Int64, Int64, Int64, Int64, Int64]


def _of_links(trace: TraceTable, paths: LongestPaths) -> _Piece:
    path = paths.path
    at = path.link[path.link != MISSING]
    part = np.array([Part.LAUNCH, Part.BETWEEN_KERNELS, Part.RUNTIME, Part.PYTHON, Part.LAUNCH])[paths.links.kind[at]]
    start, end = (each[path.link != MISSING] for each in (path.start_ns, path.end_ns))
    return part, paths.links.row[at], np.full(len(at), MISSING), start, end


def _on_stream(trace: TraceTable, chain: int, path: Ranges, lags: Ranges) -> _Piece:
    rows = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK) & (hardware_streams(trace).of == chain))
    start, end = trace.start_ns[rows], trace.ends(rows)
    reach = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, end))[:-1]
    # Work that overlaps earlier work of its stream counts from the end of that work.
    begin = np.minimum(np.maximum(start, reach), end)
    kinds = np.full(len(EventKind), Part.COMPUTE)
    kinds[[EventKind.MEMCPY, EventKind.MEMSET]] = Part.COPY
    part = np.where(trace.is_collective[rows], Part.COMMUNICATION, kinds[trace.kind[rows]])
    gap = np.maximum(np.append(start[0], reach[1:]), start[0]) if len(rows) else reach
    segments = (
        np.concatenate((part, np.full(len(rows), Part.BETWEEN_KERNELS))),
        np.concatenate((rows, rows)),
        np.concatenate((begin, np.minimum(gap, start))),
        np.concatenate((end, start)),
    )
    return _within(chain, subtract(path, join(lags, any_unrecorded(trace))), *segments)


def _on_thread(trace: TraceTable, chain: int, path: Ranges, lags: Ranges) -> _Piece:
    rows = np.flatnonzero(of_kind(trace.kind, *HOST_KINDS) & (trace.track == chain))
    times, inner = latest_open(trace.start_ns[rows], trace.ends(rows))
    row = np.append(rows, MISSING)[inner]
    kinds = np.full(len(EventKind) + 1, Part.PYTHON)
    kinds[EventKind.OPERATOR] = Part.OPERATOR
    kinds[EventKind.RUNTIME] = Part.RUNTIME
    launches = np.zeros(len(trace) + 1, np.bool_)
    launches[trace.launch[trace.launch != MISSING]] = True
    part = np.where(row == MISSING, Part.PYTHON, np.where(launches[row], Part.LAUNCH, kinds[trace.kind[row]]))
    loads = name_matches(trace, search_pattern(DATALOADER))[rows]
    loading = union(trace.start_ns[rows[loads]], trace.ends(rows[loads]))
    start, end = times, np.append(times[1:], times[-1:])
    part = np.where(measure_within(loading, start, end) > 0, Part.DATA_LOADING, part)
    edges = np.array([np.iinfo(np.int64).min // 2]), np.array([np.iinfo(np.int64).max // 2])
    segments = (
        np.concatenate(([Part.PYTHON], part, [Part.PYTHON])),
        np.concatenate(([MISSING], row, [MISSING])),
        np.concatenate((edges[0], start, times[-1:])),
        np.concatenate((times[:1], end, edges[1])),
    )
    return _within(chain, subtract(path, lags), *segments)


def _within(chain: int, path: Ranges, part: Int64, row: Int64, start: Int64, end: Int64) -> _Piece:
    """Returns the parts of sorted, disjoint time ranges that lie on the path."""
    at, _, begin, stop = _inside(path, start, end)
    return part[at], row[at], np.full(len(at), chain), begin, stop


def _inside(ranges: Ranges, start: Int64, end: Int64) -> tuple[Int64, Int64, Int64, Int64]:
    """Returns the parts of each piece inside of the ranges: index of piece and range, start and end."""
    first = np.searchsorted(ranges.end, start, side="right")
    count = np.maximum(np.searchsorted(ranges.start, end, side="left") - first, 0)
    count[end <= start] = 0
    of = np.repeat(np.arange(len(start)), count)
    place = np.repeat(first, count) + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    return of, place, np.maximum(start[of], ranges.start[place]), np.minimum(end[of], ranges.end[place])


def _with_rest(trace: TraceTable, found: CriticalTime) -> CriticalTime:
    steps, unrecorded = union(trace.steps.start_ns, trace.steps.end_ns), any_unrecorded(trace)
    rest = subtract(steps, union(found.start_ns, found.end_ns))
    every = [found]
    for part, ranges in ((Part.UNRECORDED, intersect(rest, unrecorded)), (Part.UNCOVERED, subtract(rest, unrecorded))):
        _, step, start, end = _inside(Ranges(trace.steps.start_ns, trace.steps.end_ns), ranges.start, ranges.end)
        none = np.full(len(step), MISSING)
        every.append(CriticalTime(step, np.full(len(step), part, np.uint8), none, start, end, none))
    names = CriticalTime.__struct_fields__
    return CriticalTime(*(np.concatenate([getattr(each, name) for each in every]) for name in names))


@cached_by_argument
def slack(trace: TraceTable) -> Int64:
    """Returns, for each event, how much later it could start without a later end of the last step of its run.

    The value is -1 for events outside of the steps, and for calls before the time window of the first step.
    """
    found, run = np.full(len(trace), MISSING, np.int64), np.append(runs_of_steps(trace), MISSING)
    rows = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK, *HOST_KINDS))
    of = run[_steps_of(trace, rows)]
    paths = critical_paths(trace)
    known = (of != MISSING) & (trace.start_ns[rows] >= np.append(paths.windows.start_ns, 0)[of])
    rows, of = rows[known], of[known]
    chain, on_device = hardware_streams(trace).of[rows], of_kind(trace.kind[rows], *DEVICE_WORK)
    found[rows] = paths.slack_ns(of, chain, trace.start_ns[rows], trace.ends(rows), on_device)
    return found
