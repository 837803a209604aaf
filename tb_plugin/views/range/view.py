"""Statistics of a selected time range.

For each event, only the time inside the range counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params, Part, answer_view, bounds_of
from tb_plugin.analysis.host_threads import waiting_tracks
from tb_plugin.analysis.metrics import FULL_TRACE, SHARED, define
from tb_plugin.analysis.query import matching_query
from tb_plugin.analysis.range_traces import is_range_trace
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.stack_frames import FRAMES, own_times, thread_numbers
from tb_plugin.analysis.thread_and_stream_names import track_names
from tb_plugin.analysis.timeline.lanes import lane_of, lane_with_id
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import group, number_groups, places_of, ratio, side_by_side
from tb_plugin.lib.intervals import measure, union
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.order import overlaps_range
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, OP_TREE, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import self_time
from tb_plugin.payloads import Column, Figure, Figures, Payload, Sort, Table, View
from tb_plugin.views.range import VIEW

RANGE_WORDS = "the marked range"
METRICS = SHARED.adding(
    define("", "text", {"range_group": ("Group of events", "One of kernel, operator, python, annotation, other.")}),
    define(
        RANGE_WORDS,
        "count",
        {
            "kernel_events": ("Kernels", "Kernels, copies and memsets."),
            "operator_events": ("Operators", "Operators and runtime calls."),
            "python_events": ("Python", "Python functions and modules."),
            "annotation_events": ("Annotations", "Annotations, asynchronous and instant events."),
            "other_events": ("Other", "Waits on device rows, profiler overhead and other events."),
            "waiting_threads": ("Waiting threads", "Threads whose Python calls only wait. They are not listed."),
        },
    ),
    define(FULL_TRACE, "ns", {"busy_ns": ("Busy", "Time with kernels, copies or memsets running.")}),
    define(
        RANGE_WORDS,
        "ns",
        {
            "range_length_ns": ("Length", "End minus start of the range."),
            "inside_ns": ("Inside", "Event time inside the range, summed over threads and streams."),
            "inside_self_ns": ("Self inside", "Event time inside the range, excluding nested calls."),
        },
    ),
    define(
        RANGE_WORDS,
        "ratio",
        {
            "inside_ratio": ("Share of range", "Share of the selected range that these events take."),
            "busy_ratio": ("Busy share", "Busy time divided by range length."),
        },
    ),
)


_PYTHON = (EventKind.PYTHON, EventKind.MODULE)
# Kinds that only enclose others or have no time, so they have no self time. Annotations do if nothing else exists.
_ENCLOSING_KINDS = (
    EventKind.DEVICE_ANNOTATION, EventKind.WINDOW, EventKind.UNKNOWN, EventKind.ASYNC, EventKind.INSTANT,
)  # fmt: skip
# Kinds whose events of one name and thread may nest.
_NESTING_KINDS = (*FRAMES["both"], EventKind.OVERHEAD)


# Tabs of the page, by the kinds in them.
_GROUPS = {
    "kernel": DEVICE_WORK,
    "operator": (EventKind.OPERATOR, EventKind.RUNTIME),
    "python": _PYTHON,
    "annotation": (EventKind.ANNOTATION, EventKind.DEVICE_ANNOTATION, EventKind.ASYNC, EventKind.INSTANT),
    "other": (EventKind.SYNC, EventKind.OVERHEAD, EventKind.WINDOW, EventKind.UNKNOWN),
}
_GROUP_OF_KIND = np.array([next(i for i, kinds in enumerate(_GROUPS.values()) if kind in kinds) for kind in EventKind])


class Range(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        return (params.steps, params.search, *(params.get(key) for key in ("start_ns", "end_ns", "track")))

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        # The search selects events; other filters select rows.
        return answer_view(self, parts[0], replace(params, search=""))

    def part(self, trace: TraceTable, params: Params) -> Part:
        coverage = select_rows(trace, params.steps).coverage
        start, end = bounds_of(trace, params)
        rows = np.flatnonzero(overlaps_range(trace.start_ns, trace.end_ns, start, end))
        if track := params.get("track"):
            rows = rows[lane_of(trace, rows) == lane_with_id(trace, track)]
        begins, ends = np.maximum(trace.start_ns[rows], start), np.minimum(trace.ends(rows), end)
        own = _self_inside(trace, rows, begins, ends)
        waiting = waiting_tracks(trace, rows, own)
        shown = ~(waiting[trace.track[rows]] & of_kind(trace.kind[rows], *_PYTHON))
        if params.search:
            shown &= matching_query(trace, params.search)[rows]
        kept = rows[shown]
        frames = {
            "range": _by_name(trace, rows, begins, ends, own, shown, end - start),
            "range_streams": _by_stream(trace, kept, begins[shown], ends[shown], end - start),
            "range_devices": _by_device(trace, rows, begins, ends, end - start),
        }
        names = [track_names(trace)[track].title for track in np.flatnonzero(waiting)]
        figures = [
            Figure(METRICS.metric("range_length_ns"), end - start),
            Figure(METRICS.metric("events", window=RANGE_WORDS), len(kept)),
            *([METRICS.figure("waiting_threads", len(names), note=", ".join(names[:10]))] if names else []),
        ]
        count = np.bincount(_GROUP_OF_KIND[trace.kind[kept]], minlength=len(_GROUPS)).tolist()
        payloads: dict[str, Payload] = {
            "summary": Figures("summary", "Range", "", figures),
            "groups": Figures(
                "groups",
                "Groups",
                "",
                METRICS.figures({f"{key}_events": n for key, n in zip(_GROUPS, count, strict=True)}),
            ),
        }
        return Part(coverage, {}, frames, payloads, ("summary", "groups", "range_devices", "range_streams", "range"))


def _by_name(
    trace: TraceTable, rows: Int64, begins: Int64, ends: Int64, own_ns: Int64, shown: Bool, length_ns: int
) -> Frame:
    # Nested calls count for their callers, shown or not.
    once = _once(trace, rows, group(trace.name[rows], trace.kind[rows]).of, begins, ends)[shown]
    rows, own_ns = rows[shown], own_ns[shown]
    kind = trace.kind[rows]
    groups = group(trace.name[rows], kind)
    dur = trace.dur_ns[rows]
    inside = groups.sum(once)
    around = _ENCLOSING_KINDS if is_range_trace(trace) else (*_ENCLOSING_KINDS, EventKind.ANNOTATION)
    count = groups.count()
    kinds = pa.array([one.name.lower() for one in EventKind], pa.string())
    data = pa.table(
        {
            "name": trace.strings.take(trace.name[rows][groups.first]),
            "kind": kinds.take(pa.array(kind[groups.first])),
            "events": pa.array(count),
            "inside_ns": pa.array(inside),
            "inside_ratio": pa.array(inside / length_ns),
            "inside_self_ns": pa.array(groups.sum(own_ns), mask=of_kind(kind[groups.first], *around)),
            "mean_ns": pa.array(ratio(groups.sum(dur), count)),
            "min_ns": pa.array(groups.min(dur)),
            "max_ns": pa.array(groups.max(dur)),
            "range_group": pa.array(list(_GROUPS), pa.string()).take(pa.array(_GROUP_OF_KIND[kind[groups.first]])),
        }
    )
    order = [
        ("inside_self_ns", "descending"),
        ("inside_ns", "descending"),
        ("name", "ascending"),
        ("kind", "ascending"),
    ]
    return Frame(
        name="range",
        title="In the range, by name",
        columns=[_column(key, share=key == "inside_self_ns", hidden=key == "range_group") for key in data.column_names],
        data=sorted_by(data, order),
        row_key=("name", "kind"),
        name_column="name",
        sort=Sort("inside_self_ns", True),
    )


def _once(trace: TraceTable, rows: Int64, name: Int64, begins: Int64, ends: Int64) -> Int64:
    inside = ends - begins
    among = np.flatnonzero(of_kind(trace.kind[rows], *_NESTING_KINDS))
    key, _ = number_groups(name[among] * len(trace.tracks) + trace.track[rows[among]])
    first, last = side_by_side((key, begins[among]), (key, ends[among]))
    order = np.lexsort((-last, first))
    reach = np.maximum.accumulate(last[order])
    # The longest earlier event of the same name and thread.
    longest = np.maximum.accumulate(np.where(last[order] == reach, np.arange(len(order)), 0))[:-1]
    here, before = among[order[1:]], among[order[longest]]
    same = key[order[1:]] == key[order[longest]]
    inside[here[same]] = np.maximum(ends[here] - np.maximum(begins[here], ends[before]), 0)[same]
    return inside


def _self_inside(trace: TraceTable, rows: Int64, begins: Int64, ends: Int64) -> Int64:
    own = ends - begins
    if is_range_trace(trace):
        among = np.flatnonzero(of_kind(trace.kind[rows], *FRAMES["both"]))
        own[among] = own_times(thread_numbers(trace, rows[among]), begins[among], ends[among])
        return own
    for kinds, parents, owners in (
        (OP_TREE, trace.parent, OP_TREE),
        (_PYTHON, trace.python_parent, (EventKind.PYTHON,)),
    ):
        among = np.flatnonzero(of_kind(trace.kind[rows], *kinds))
        chosen = rows[among]
        parent = places_of(chosen, len(trace))[parents[chosen]]
        self_ns = self_time(begins[among], ends[among], parent, trace.overlaps[chosen])
        counted = of_kind(trace.kind[chosen], *owners)
        own[among[counted]] = self_ns[counted]
    return own


def _by_device(trace: TraceTable, rows: Int64, begins: Int64, ends: Int64, length_ns: int) -> Frame:
    work = of_kind(trace.kind[rows], *DEVICE_WORK) & (trace.device[rows] != MISSING)
    found = []
    for device in np.unique(trace.device[rows[work]]).tolist():
        mine = work & (trace.device[rows] == device)
        busy = measure(union(begins[mine], ends[mine]))
        found.append((trace.devices[device].id, int(mine.sum()), busy, length_ns - busy, busy / length_ns))
    return _work_frame("range_devices", "Devices in the range", "device", found)


def _by_stream(trace: TraceTable, rows: Int64, begins: Int64, ends: Int64, length_ns: int) -> Frame:
    work = of_kind(trace.kind[rows], *DEVICE_WORK)
    names, found = track_names(trace), []
    for track in np.unique(trace.track[rows[work]]).tolist():
        mine = work & (trace.track[rows] == track)
        busy = measure(union(begins[mine], ends[mine]))
        found.append((names[track].label, int(mine.sum()), busy, length_ns - busy, busy / length_ns))
    return _work_frame("range_streams", "Streams in the range", "stream", found)


def _work_frame(name: str, title: str, key: str, found: Sequence[tuple[object, ...]]) -> Frame:
    keys = (key, "events", "busy_ns", "idle_ns", "busy_ratio")
    types = (pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.float64())
    data = pa.table({key: pa.array([row[i] for row in found], types[i]) for i, key in enumerate(keys)})
    return Frame(name, title, [_column(each) for each in keys], data, (key,), key)


def _column(key: str, share: bool = False, hidden: bool = False) -> Column:
    metric = METRICS.metric(key, "Idle in the range" if key == "idle_ns" else "", RANGE_WORDS)
    return Column(metric, share=share, hidden=hidden)
