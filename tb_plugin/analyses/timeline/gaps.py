"""Gaps: where a stream of a device stood still, and what the host did meanwhile instead of feeding it.

A gap lies between two consecutive pieces of work of a stream. What explains it is the call that launched the work after
it: was it late, and what was its thread busy with, or was it early, and the work waited on the device?
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analyses.base import Detail, Frame, Params, Part, answer_view, bounds_of, whole_number
from tb_plugin.analyses.metrics import SHARED, define
from tb_plugin.analyses.selection import select_rows
from tb_plugin.analyses.timeline.lanes import lanes_of
from tb_plugin.payloads import Column, Figure, Figures, Metric, Sort, Table, View
from tb_plugin.trace.intervals import Ranges, contains, measure_within, union
from tb_plugin.trace.numbering import distinct
from tb_plugin.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind
from tb_plugin.trace.steps import STEP_NAME
from tb_plugin.trace.table import TraceTable
from tb_plugin.trace.tree import latest_open, stable_order

HERE = "the window"
METRICS = SHARED.adding(
    define(
        HERE,
        "count",
        {
            "gaps": ("Gaps", "Times between two pieces of work of a device stream, no shorter than asked for."),
            "gaps_listed": ("Listed", "The longest of them, which are listed."),
        },
    ),
    define(
        HERE,
        "ns",
        {
            "gap_ns": ("In gaps", "Parts of the gaps that lie in the window, added up over the streams."),
            "launched_at_ns": ("Launched at", "When the call that launched the work after the gap began."),
            "host_doing_ns": (
                "In it",
                "Time of the gap (until the launch, where it was late) in what the host did most.",
            ),
        },
    ),
    define(
        HERE,
        "ratio",
        {
            "gap_ratio": (
                "Share",
                "Time in gaps over the length of the window times the number of streams that worked.",
            ),
            "other_busy_ratio": ("Others busy", "Share of the gap in which another stream of the device worked."),
            "host_doing_ratio": ("Of the gap", "Time in what the host did most over the length of the gap."),
        },
    ),
    define(
        "",
        "text",
        {
            "why": (
                "Why",
                "host busy: the launch came late, its thread did something else. host waits: late, the thread waited for "
                "a device. launched before: the work was launched in time and waited on the device. nothing recorded: no "
                "launch, or the thread recorded nothing meanwhile.",
            ),
        },
    ),
    define(
        "",
        "code",
        {
            "host_doing": (
                "Host did",
                "Name that was innermost longest on the thread that launched the work after the gap: until the launch "
                "where it was late, else in all of the gap. Empty: no event was open.",
            ),
        },
    ),
)

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

SHORTEST_NS = 10_000
LISTED = 2_000
"""Longest gaps that are listed; the figures are over all."""

HOST_BUSY, HOST_WAITS, LAUNCHED, UNKNOWN = "host busy", "host waits", "launched before", "nothing recorded"
WAITS = re.compile(r"synchroni[sz]e|WaitFor|(?:Event|Events|Queue)Wait|memcpy(?!.*async)", re.IGNORECASE)
"""Names of calls in which the host waits for a device; copies that are not asynchronous among them."""

_HOST = (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.RUNTIME, EventKind.PYTHON, EventKind.MODULE)
_CELLS = 1 << 22
"""Numbers in a table of time by name: what more than so many need is worked out in turns."""
_NEXT = Metric(
    "event", "Event", "count", "Number of the event after the gap in order of time, as the timeline knows it."
)
_COLUMNS = (
    "lane", "device", "stream", "start_ns", "dur_ns", "event", "name", "launched_at_ns", "other_busy_ratio", "why",
    "host_doing", "host_doing_ns", "host_doing_ratio",
)  # fmt: skip


class Gaps(Detail):
    """Gaps of the device streams in a window."""

    id = "gaps"
    title = "Gaps"

    def part_key(self, params: Params) -> tuple[object, ...]:
        """Depends on the window and on how short a gap may be; the steps are said, not applied."""
        return (params.steps, *(params.get(key) for key in ("start_ns", "end_ns", "min_ns")))

    def part(self, trace: TraceTable, params: Params) -> Part:
        """Gaps of at least ``min_ns`` that touch ``[start_ns, end_ns)``, by default the whole trace. Raises BadRequest."""
        coverage = select_rows(trace, params.steps).coverage
        start, end = bounds_of(trace, params)
        shortest = whole_number(params, "min_ns")
        every = _every(trace)
        found = every.take(
            (every.end_ns - every.start_ns >= (SHORTEST_NS if shortest is None else shortest))
            & (every.start_ns < end)
            & (every.end_ns > start)
        )
        summary = Figures("summary", "Gaps", "", _figures(trace, found, start, end))
        frames = {"gaps": _frame(trace, found.take(_longest(found)))}
        return Part(coverage, {}, frames, {"summary": summary}, ("summary", "gaps"))

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """The figures and the first gaps, or a page of the list."""
        return answer_view(self, parts[0], params)


@dataclass(frozen=True, eq=False)
class _Found:
    """Gaps as columns. ``next`` is the row of the work after each; ``streams`` counts all streams that worked."""

    start_ns: Int64
    end_ns: Int64
    next: Int64
    streams: int
    busy: dict[int, Ranges]
    """When each device worked on any stream."""

    def take(self, chosen: Int64 | Bool) -> _Found:
        """Some of the gaps."""
        return _Found(self.start_ns[chosen], self.end_ns[chosen], self.next[chosen], self.streams, self.busy)


@lru_cache(maxsize=2)
def _every(trace: TraceTable) -> _Found:
    """All gaps of a trace, those of one stream by time."""
    # A trace that was opened as a window also holds what was launched in it and ran later, without what ran beside.
    covered = (trace.start_ns <= trace.coverage.end_ns) & (trace.end_ns >= trace.coverage.start_ns)
    rows = np.flatnonzero(of_kind(trace.kind, *DEVICE_WORK) & covered)
    rows = rows[stable_order(trace.track[rows])]
    track, start, end = trace.track[rows], trace.start_ns[rows], trace.end_ns[rows]
    # The latest end so far on a stream: a running maximum of places, which later streams hold the higher ones of.
    by_end = np.lexsort((end, track))
    place = np.empty(len(rows), np.int64)
    place[by_end] = np.arange(len(rows))
    reach = end[by_end][np.maximum.accumulate(place)]
    at = np.flatnonzero((track[1:] == track[:-1]) & (start[1:] > reach[:-1])) + 1
    device = trace.device[rows]
    order = stable_order(device)
    devices, first = np.unique(device[order], return_index=True)
    parts = np.split(order, first[1:]) if len(rows) else []
    busy = {int(one): union(start[part], end[part]) for one, part in zip(devices, parts, strict=True)}
    return _Found(reach[at - 1], start[at], rows[at], len(np.unique(track)), busy)


def _longest(found: _Found) -> Int64:
    """Positions of the gaps to list, the longest first; of equals the earliest."""
    order: Int64 = np.lexsort((found.next, found.start_ns, found.start_ns - found.end_ns))[:LISTED]
    return order


def _figures(trace: TraceTable, found: _Found, start: int, end: int) -> list[Figure]:
    """How many gaps there are, and how much of the window they take."""
    inside = int((np.minimum(found.end_ns, end) - np.maximum(found.start_ns, start)).sum())
    length = max(0, min(end, trace.coverage.end_ns) - max(start, trace.coverage.start_ns)) * found.streams
    return [
        Figure(METRICS.metric("gaps"), len(found.next)),
        Figure(METRICS.metric("gap_ns"), inside),
        Figure(METRICS.metric("gap_ratio"), inside / length if length else None),
        Figure(METRICS.metric("gaps_listed"), min(len(found.next), LISTED)),
    ]


def _frame(trace: TraceTable, gaps: _Found) -> Frame:
    """The gaps as a table, in their order."""
    length = gaps.end_ns - gaps.start_ns
    track, device = trace.track[gaps.next], trace.device[gaps.next]
    launch = trace.launch[gaps.next]
    other = np.zeros(len(length), np.int64)
    for number in np.unique(device).tolist():
        mine = device == number
        # The stream itself stands still in its gap: what is busy there is another one.
        other[mine] = measure_within(gaps.busy[number], gaps.start_ns[mine], gaps.end_ns[mine])
    why = _explained(trace, gaps)
    ids = pa.array([*(each.id for each in trace.devices), None], pa.string())
    streams = pa.array([each.tid for each in trace.tracks], pa.string())
    data = pa.table(
        {
            "lane": pa.array(lanes_of(trace).places(trace, gaps.next)),
            "device": ids.take(pa.array(np.where(device == MISSING, len(ids) - 1, device))),
            "stream": streams.take(pa.array(track)),
            "start_ns": pa.array(gaps.start_ns),
            "dur_ns": pa.array(length),
            "event": pa.array(gaps.next),
            "name": trace.strings.take(trace.name[gaps.next]),
            "launched_at_ns": pa.array(trace.start_ns[launch], mask=launch == MISSING),
            "other_busy_ratio": pa.array(other / length, mask=device == MISSING),
            "why": pa.array(why.why, pa.string()),
            "host_doing": trace.strings.take(why.name),
            "host_doing_ns": pa.array(why.time_ns, mask=launch == MISSING),
            "host_doing_ratio": pa.array(why.time_ns / length, mask=launch == MISSING),
        }
    )
    return Frame(
        name="gaps",
        title="Gaps",
        columns=[Column(_NEXT if key == "event" else METRICS.metric(key, window=HERE)) for key in _COLUMNS],
        data=data,
        row_key=("lane", "start_ns"),
        name_column="name",
        sort=Sort("dur_ns", True),
    )


@dataclass(frozen=True, eq=False)
class _Why:
    """What explains gaps: a class, and the name (string id, -1 = nothing recorded) that the host spent most time in."""

    why: list[str]
    name: Int64
    time_ns: Int64


def _explained(trace: TraceTable, gaps: _Found) -> _Why:
    """Late: at least half of the gap was over when the launch began; looked at is the time until then, else all of it."""
    launch = trace.launch[gaps.next]
    begun = np.clip(trace.start_ns[launch], gaps.start_ns, gaps.end_ns) if len(trace) else gaps.end_ns
    launched = launch != MISSING
    late = launched & (2 * (begun - gaps.start_ns) >= gaps.end_ns - gaps.start_ns)
    until = np.where(late, begun, gaps.end_ns)
    name = np.full(len(launch), MISSING, np.int64)
    time = np.zeros(len(launch), np.int64)
    host = _host_of(trace)
    threads = np.where(launched, trace.track[launch], MISSING) if len(trace) else launch
    for thread in np.unique(threads[launched]).tolist():
        mine = np.flatnonzero(threads == thread)
        name[mine], time[mine] = host.most(thread, gaps.start_ns[mine], until[mine])
    waits = trace.strings.where(lambda text: WAITS.search(text) is not None)[name]
    why = np.select(
        [launched & ~late, ~launched | (name == MISSING), waits], [LAUNCHED, UNKNOWN, HOST_WAITS], default=HOST_BUSY
    )
    return _Why(why.tolist(), name, time)


class _Host:
    """What the threads of a trace did innermost at any moment; each thread is worked out when it is first asked for."""

    def __init__(self, trace: TraceTable) -> None:
        self._trace = trace
        is_step = trace.strings.where(lambda text: STEP_NAME.match(text) is not None)[trace.name]
        rows = np.flatnonzero(of_kind(trace.kind, *_HOST) & ~is_step)
        self._rows = rows[stable_order(trace.track[rows])].astype(np.int32)
        self._bounds = np.searchsorted(trace.track[self._rows], np.arange(len(trace.tracks) + 1))
        self._known: dict[int, tuple[Int64, Int32]] = {}

    def _doing(self, track: int) -> tuple[Int64, Int32]:
        """Times at which the innermost event of a thread changes, and the names (string ids) from each on, -1 = none."""
        if track not in self._known:
            trace, rows = self._trace, self._rows[self._bounds[track] : self._bounds[track + 1]]
            time, which = latest_open(trace.start_ns[rows], trace.end_ns[rows])
            name = np.append(trace.name[rows], np.int32(MISSING))[which]
            changed = np.append(True, name[1:] != name[:-1])[: len(name)]
            self._known[track] = time[changed], name[changed]
        return self._known[track]

    def most(self, track: int, begin: Int64, end: Int64) -> tuple[Int64, Int64]:
        """Of each (non-empty) stretch of time the name that was innermost longest, and how long. -1: no event was open.

        The time of each name before each bound is a table; a stretch is the difference of two of its columns.
        """
        edges = distinct(begin, end)
        times, names = self._doing(track)
        near = slice(*np.searchsorted(times, edges[[0, -1]]))
        points = distinct(times[near], edges)
        left, length = points[:-1], np.diff(points)
        asked = contains(union(begin, end), left)
        left, length = left[asked], length[asked]
        doing = np.append(names, np.int32(MISSING))[np.searchsorted(times, left, side="right") - 1]
        known, of = np.unique(doing, return_inverse=True)
        order = stable_order(of.ravel())
        of, left, length = of.ravel()[order], left[order], length[order]
        column = np.searchsorted(edges, left, side="right")
        first, last = np.searchsorted(edges, begin), np.searchsorted(edges, end)
        best_name, best = np.full(len(begin), MISSING, np.int64), np.full(len(begin), -1, np.int64)
        height = max(1, _CELLS // len(edges))
        for low in range(0, len(known), height):
            some = slice(*np.searchsorted(of, (low, low + height)))
            rows = min(height, len(known) - low)
            cell = (of[some] - low) * len(edges) + column[some]
            # Sums stay below 2^53 ns (104 days), so float64 adds them exactly.
            table = np.bincount(cell, length[some], rows * len(edges)).reshape(rows, len(edges)).cumsum(axis=1)
            spent = table[:, last] - table[:, first]
            top = spent.argmax(axis=0)
            time = spent[top, np.arange(len(begin))].astype(np.int64)
            better = time > best
            best_name[better], best[better] = known[low + top[better]], time[better]
        return best_name, best


@lru_cache(maxsize=2)
def _host_of(trace: TraceTable) -> _Host:
    """The threads of a trace; those of the last two stay."""
    return _Host(trace)
