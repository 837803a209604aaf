"""Launch times, launch queue and runtime calls."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.device_time import device_noun
from tb_plugin.analysis.forest import Spans, outermost_of
from tb_plugin.analysis.phrases import vendor_words
from tb_plugin.analysis.runtime_calls import callers, runtime_calls
from tb_plugin.analysis.selection import Selection, chosen_steps, select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import Groups, group
from tb_plugin.lib.intervals import union
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import nest
from tb_plugin.payloads import Figure, Figures, Payload, Sort
from tb_plugin.sql.statements import with_sql
from tb_plugin.views.launches import VIEW
from tb_plugin.views.launches.launch_table import launch_table, queue_depths
from tb_plugin.views.launches.metrics import METRICS
from tb_plugin.views.launches.tables import (
    by_kernel,
    by_operator,
    late_launches,
    launch_facts,
    launch_payloads,
    queues,
    sequences,
    totals,
)

NAMES = ("name",)
TIMES = ("calls", "device_idle_ns", "host_total_ns", "host_self_ns")
CALLERS = ("name", "operator", "caller_phase", "caller_frame")


class _Chosen(msgspec.Struct, frozen=True, eq=False):
    row: Int64
    spans: Spans
    nested_in: Int32
    """Index of the enclosing call; -1 = none."""
    device_idle_ns: Int64 | None
    launched: Int64
    bytes: Int64
    keys: Mapping[str, tuple[npt.NDArray[np.integer], pa.Array]]
    """Columns for grouping, by name. Each has an index per call (-1 = none) and the texts that the indices refer to."""


class Launches(DeclaredView, entry=VIEW):
    selects = "events"

    def part(self, trace: TraceTable, params: Params) -> Part:
        selection = select_rows(trace, *params.chosen)
        calls = _chosen(trace, selection.rows)
        frames = {
            "runtime_calls": _frame(trace, calls, "runtime_calls", "Runtime calls", NAMES),
            "runtime_calls_by_caller": _frame(
                trace, calls, "runtime_calls_by_caller", "Runtime calls by caller", CALLERS
            ),
        }
        idle = None if calls.device_idle_ns is None else int(calls.device_idle_ns.sum())
        facts: dict[str, int | None] = {
            "launches.calls": len(calls.row),
            "launches.host_ns": int(trace.self_ns[calls.row].sum()),
            "launches.device_idle_ns": idle,
        }
        word = device_noun(trace)
        payloads: dict[str, Payload] = {
            "summary": Figures("summary", "Runtime calls", "", _summary(facts)),
            **_answer(frames, word),
        }
        own = _launches(trace, selection)
        shown = {**own.payloads, **payloads}
        return Part(
            selection.coverage,
            {**own.facts, **facts},
            with_sql({**own.frames, **frames}, params),
            shown,
            (*shown, "runtime_calls"),
        )


def _launches(trace: TraceTable, selection: Selection) -> Part:
    every = launch_table(trace, selection.steps)
    chosen = every.of(selection.rows[every.call])
    at = chosen_steps(trace, selection.steps)
    depths = queue_depths(trace, union(trace.steps.start_ns[at], trace.steps.end_ns[at]))
    all_of = totals(chosen)
    frames = (
        by_operator(trace, chosen),
        by_kernel(trace, chosen),
        late_launches(trace, chosen),
        queues(trace, depths),
        sequences(trace, selection.rows),
    )
    word = device_noun(trace)
    todo = vendor_words(trace.recorder.todo("recording_began_mid_flight"), word)
    return Part(
        selection.coverage,
        launch_facts(trace, all_of, depths),
        {frame.name: frame for frame in frames},
        launch_payloads(chosen, all_of, depths, word, todo),
    )


def _chosen(trace: TraceTable, selected: npt.NDArray[np.bool_]) -> _Chosen:
    every, made_by = runtime_calls(trace), callers(trace)
    chosen = np.flatnonzero(selected[every.row])
    rows = every.row[chosen]
    spans = Spans(trace.track[rows], trace.start_ns[rows], trace.ends(rows))
    operator = trace.operator[rows]
    ids = {
        "name": trace.name[rows],
        "operator": np.append(trace.name, np.int32(MISSING))[operator],
        "caller_phase": made_by.phase[chosen],
    }
    keys = {key: (values, trace.strings.array) for key, values in ids.items()}
    keys["caller_frame"] = made_by.frame[chosen], made_by.frames
    return _Chosen(
        row=rows,
        spans=spans,
        nested_in=nest(spans.track, spans.start, spans.end).parent,
        device_idle_ns=None if every.device_idle_ns is None else every.device_idle_ns[chosen],
        launched=every.launched[chosen],
        bytes=every.bytes[chosen],
        keys=keys,
    )


def _frame(trace: TraceTable, calls: _Chosen, name: str, title: str, by: tuple[str, ...]) -> Frame:
    groups = group(*(calls.keys[key][0] for key in by))
    texts = {key: _texts(groups, *calls.keys[key]) for key in by}
    numbers = _numbers(trace, calls, groups)
    # Times come before the callers: texts are wide and would push them out of view.
    data = {key: texts[key] for key in NAMES} | {key: numbers[key] for key in TIMES if key in numbers} | texts | numbers
    idle = calls.device_idle_ns is not None and bool(calls.device_idle_ns.any())
    first = "device_idle_ns" if idle else "host_self_ns"
    order = [(first, "descending"), ("host_self_ns", "descending"), *((key, "ascending") for key in by)]
    # Without nested calls, self equals total. The table by caller omits columns of the other table.
    hidden: tuple[str, ...] = () if (calls.nested_in != MISSING).any() else ("host_self_ns",)
    if by != NAMES:
        hidden += ("max_ns", "launched", "bytes")
    present = [key for key in data if key in by or len(data[key]) == 0 or data[key].null_count < len(data[key])]
    return Frame(
        name=name,
        title=title,
        columns=METRICS.columns(*present, hidden=hidden, share=(first,)),
        data=sorted_by(pa.table(data), order),
        row_key=by,
        name_column="name",
        sort=Sort(first, True),
    )


def _texts(groups: Groups, values: npt.NDArray[np.integer], texts: pa.Array) -> pa.Array:
    one = values[groups.first].astype(np.int64)
    return texts.take(pa.array(one, mask=one == MISSING))


def _numbers(trace: TraceTable, calls: _Chosen, groups: Groups) -> dict[str, pa.Array]:
    dur = trace.dur_ns[calls.row]
    outermost = outermost_of(groups.of, calls.spans, calls.nested_in)
    known = calls.bytes != MISSING
    data = {"calls": pa.array(groups.count())}
    if calls.device_idle_ns is not None:
        data["device_idle_ns"] = pa.array(groups.sum(calls.device_idle_ns))
    data["host_total_ns"] = pa.array(groups.sum(np.where(outermost, dur, 0)))
    data["host_self_ns"] = pa.array(groups.sum(trace.self_ns[calls.row]))
    data["max_ns"] = pa.array(groups.max(dur))
    data["launched"] = pa.array(groups.sum(calls.launched))
    data["bytes"] = pa.array(groups.sum(np.where(known, calls.bytes, 0)), mask=~groups.any(known))
    return data


def _summary(facts: dict[str, int | None]) -> list[Figure]:
    figures = [
        METRICS.figure("calls", facts["launches.calls"]),
        METRICS.figure("host_self_ns", facts["launches.host_ns"], "Runtime calls"),
    ]
    idle = facts["launches.device_idle_ns"]
    return figures if idle is None else [*figures, METRICS.figure("device_idle_ns", idle)]


def _answer(frames: dict[str, Frame], word: str) -> dict[str, Payload]:
    calls, by_caller = frames["runtime_calls"], frames["runtime_calls_by_caller"]
    if not calls.data.num_rows:
        return {}
    (first,) = calls.data.slice(0, 1).to_pylist()
    (caller,) = by_caller.data.filter(pc.equal(by_caller.data["name"], first["name"])).slice(0, 1).to_pylist()
    times = [key for key in ("device_idle_ns", "host_self_ns", "calls") if key in first]
    most = [METRICS.figure("name", first["name"]), *(METRICS.figure(key, first[key]) for key in times)]
    who = [
        *(METRICS.figure(key, caller[key]) for key in CALLERS[1:]),
        *(METRICS.figure(key, caller[key]) for key in times),
    ]
    idles = calls.sort is not None and calls.sort.key == "device_idle_ns"
    title = f"Most CPU time while the {word} idles" if idles else "Most CPU time"
    return {
        "longest_call": Figures("longest_call", title, "", most),
        "longest_caller": Figures("longest_caller", "Main caller", "", who),
    }
