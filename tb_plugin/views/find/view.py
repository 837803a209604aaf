"""Search for events that match a text or a table row."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Params, Part, answer_view, bounds_of, int_param
from tb_plugin.analysis.filters import EVENT, matching
from tb_plugin.analysis.metrics import SHARED, define
from tb_plugin.analysis.query import PLACES, containing, matching_query
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.thread_and_stream_names import track_names
from tb_plugin.analysis.timeline.lanes import lanes_of
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import ratio, sum_by
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.order import overlaps_range
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, Figures, Line, Metric, Payload, Series, Sort, Table, View
from tb_plugin.views.find import VIEW

METRICS = SHARED.adding(
    define(
        "",
        "count",
        {
            "found_per_step": ("Per step", "Matches in the steps, divided by the number of steps."),
            "found_names": ("Names", "Distinct names among the matches."),
            "hit_position": ("Position", "Index of the first match at or after the requested time."),
        },
    ),
    define(
        "",
        "ns",
        {
            "found_step_ns": ("Total per step", "Time of the matches in the steps, divided by the number of steps."),
            "first_hit_ns": ("First", "Start of the first match."),
            "last_hit_ns": ("Last", "Start of the last match."),
        },
    ),
)


ROW = Metric("row", "Row", "count", "Row of the event in its lane.")
BINS = 1200
MOST_BINS = 10_000


class Find(DeclaredView, entry=VIEW):
    def part_key(self, params: Params) -> tuple[object, ...]:
        own = ("in", "exact", "start_ns", "end_ns", "bins")
        return (*params.chosen, params.search, params.where, *(params.get(key) for key in own))

    def part(self, trace: TraceTable, params: Params) -> Part:
        selection = select_rows(trace, *params.chosen)
        # A table row stands for the events it counts; a text search covers all drawn events.
        counted = params.steps is not None or params.where or params.phase
        rows = selection.rows if counted else np.ones(len(trace), np.bool_)
        chosen = matching(trace, rows, params.where, params.pattern)
        place, exact = _one_of(params, "in", PLACES), _one_of(params, "exact", ("0", "1")) == "1"
        if exact:
            chosen &= containing(trace, "names" if place == "first" else place, params.search, exact)
        elif params.search:
            chosen &= matching_query(trace, params.search, place)
        if params.get("start_ns") or params.get("end_ns"):
            chosen &= overlaps_range(trace.start_ns, trace.end_ns, *bounds_of(trace, params))
        hits = _hits(trace, np.flatnonzero(chosen))
        payloads: dict[str, Payload] = {
            "summary": _summary(trace, hits, params),
            "marks": _marks(trace, hits, _bins(params)),
        }
        frames = {"names": _by_name(trace, hits), "hits": _in_time(trace, hits)}
        return Part(selection.coverage, {}, frames, payloads, (*payloads, *frames), searched=True)

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        answer = answer_view(self, parts[0], params)
        near = int_param(params, "near_ns")
        if near is not None and isinstance(answer, View):
            starts = parts[0].frames["hits"].data["start_ns"].to_numpy()
            position = int(np.searchsorted(starts, near, side="left"))
            answer.payloads["near"] = Figures("near", "From here", "", [METRICS.figure("hit_position", position)])
        return answer


def _one_of(params: Params, key: str, choices: tuple[str, ...]) -> str:
    value = params.get(key) or choices[0]
    if value not in choices:
        raise BadRequest(f"{key} cannot be {value[:40]}.", key, f"Choose one of {', '.join(choices)}.")
    return value


def _bins(params: Params) -> int:
    bins = int_param(params, "bins")
    return BINS if bins is None else min(max(bins, 1), MOST_BINS)


class _Hits(msgspec.Struct, frozen=True, eq=False):
    rows: Int64
    start_ns: Int64
    dur_ns: Int64
    pair: Int32
    kind: Int64
    name: Int32
    ids: Int64


def _hits(trace: TraceTable, rows: Int64) -> _Hits:
    # Pairs are found by hashing once; all else works on the few pairs. ``take`` is faster than indexing for many rows.
    both = trace.name.take(rows).astype(np.int64) * len(EventKind) + trace.kind.take(rows)
    pairs = pa.array(both).dictionary_encode()
    name, kind = np.divmod(pairs.dictionary.to_numpy(), len(EventKind))
    ids, place = np.unique(name, return_inverse=True)
    indices = pairs.indices.to_numpy()
    return _Hits(
        rows, trace.start_ns.take(rows), trace.dur_ns.take(rows), indices, kind, place.ravel().astype(np.int32), ids
    )


def _summary(trace: TraceTable, hits: _Hits, params: Params) -> Figures:
    total, count = int(hits.dur_ns.sum()), len(hits.rows)
    figures = [
        METRICS.figure("events", count),
        METRICS.figure("total_ns", total),
        METRICS.figure("found_names", len(hits.ids)),
    ]
    if count and trace.steps.recorded:
        steps = trace.steps.label if params.steps is None else params.steps
        among = select_rows(trace, tuple(steps)).rows[hits.rows]
        figures += [
            METRICS.figure("found_per_step", int(among.sum()) / len(steps)),
            METRICS.figure("found_step_ns", int(hits.dur_ns[among].sum()) / len(steps)),
        ]
    if count:
        figures += [
            METRICS.figure("mean_ns", total / count),
            METRICS.figure("first_hit_ns", int(hits.start_ns[0])),
            METRICS.figure("last_hit_ns", int(hits.start_ns[-1])),
        ]
    return Figures("summary", "Found", "", figures)


def _marks(trace: TraceTable, hits: _Hits, bins: int) -> Series:
    first = trace.coverage.start_ns
    length = max(trace.coverage.end_ns - first, 1)
    edges = [first + length * i // bins for i in range(bins + 1)]
    places = np.searchsorted(hits.start_ns, np.array(edges, np.int64))
    places[0], places[-1] = 0, len(hits.rows)  # events at the end of the trace go into the last slice
    return Series(
        name="marks",
        title="Where",
        subtitle=f"{len(hits.rows)} events",
        x_metric=METRICS.metric("start_ns"),
        x=list(edges),
        lines=[Line(METRICS.metric("events"), "kernel", np.diff(places).tolist())],
        style="histogram",
    )


def _coded(codes: npt.NDArray[np.integer], texts: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes), texts)


def _kinds() -> pa.Array:
    return pa.array([kind.name.lower() for kind in EventKind], pa.string())


def _in_time(trace: TraceTable, hits: _Hits) -> Frame:
    labels = [name.label for name in track_names(trace)]
    threads = sorted(set(labels))
    number = {label: i for i, label in enumerate(threads)}
    thread = np.array([number[label] for label in labels], np.int32)
    data = {
        "event": pa.array(hits.rows),
        "lane": pa.array(lanes_of(trace).places(trace, hits.rows)),
        "row": pa.array(trace.depth.take(hits.rows)),
        "name": _coded(hits.name.take(hits.pair), trace.strings.take(hits.ids)),
        "kind": _coded(hits.kind.astype(np.int8).take(hits.pair), _kinds()),
        "thread": _coded(thread.take(trace.track.take(hits.rows)), pa.array(threads, pa.string())),
        "start_ns": pa.array(hits.start_ns),
        "dur_ns": pa.array(hits.dur_ns),
    }
    shown = [
        *(Column(hidden, hidden=True) for hidden in (EVENT, METRICS["lane"], ROW)),
        *METRICS.columns("name", "kind", "thread", "start_ns", "dur_ns"),
    ]
    return Frame("hits", "Hits", shown, pa.table(data), ("event",), "name", Sort("start_ns", False))


def _by_name(trace: TraceTable, hits: _Hits) -> Frame:
    events = np.bincount(hits.pair, minlength=len(hits.kind))
    total = sum_by(hits.pair, hits.dur_ns, len(hits.kind))
    data = pa.table(
        {
            "name": trace.strings.take(hits.ids[hits.name]),
            "kind": _kinds().take(pa.array(hits.kind)),
            "events": pa.array(events),
            "total_ns": pa.array(total),
            "mean_ns": pa.array(ratio(total, events)),
        }
    )
    return Frame(
        name="names",
        title="Found, by name",
        columns=METRICS.columns(*data.column_names, share=("total_ns",)),
        data=sorted_by(data, [("total_ns", "descending"), ("name", "ascending"), ("kind", "ascending")]),
        row_key=("name", "kind"),
        name_column="name",
        sort=Sort("total_ns", True),
    )
