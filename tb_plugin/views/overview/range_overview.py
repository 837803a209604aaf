"""The Overview of traces that contain only ranges."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.host_threads import threads_of
from tb_plugin.analysis.metrics import FULL_TRACE
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.range_names import ranges_by_name
from tb_plugin.analysis.stack_frames import FRAMES, labels_of, stack_frames, thread_numbers
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.extra_columns import NEVER_ENDED
from tb_plugin.model.trace.schema import EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figures, Link, Notice, Notices, Payload, Sort
from tb_plugin.views.overview.metrics import METRICS

# The Stacks view lists all.
LISTED = 20


def ranges_payloads(trace: TraceTable) -> tuple[dict[str, Payload], dict[str, Frame]]:
    frames: dict[str, Frame] = {}
    payloads: dict[str, Payload] = {"headline": _headline(trace)}
    found = stack_frames(trace, "both", "none")
    if len(found.row):
        names = ranges_by_name(trace)
        payloads["largest_costs"] = Notices("largest_costs", "Largest costs", "answer", _sentences(trace, names))
        title = "Ranges with the largest self time"
        columns = METRICS.columns(*names.column_names)
        sort = Sort("range_own_ns", True)
        frames["longest_ranges"] = Frame(
            "longest_ranges", title, columns, names.slice(0, LISTED), ("name",), "name", sort
        )
        frames["busiest_threads"] = _threads(trace)
    if (trace.kind == EventKind.ASYNC).any():
        frames["operations"] = _operations(trace)
    return payloads, frames


def _headline(trace: TraceTable) -> Figures:
    threads = {track for track in np.unique(trace.track).tolist() if not trace.tracks[track].is_async}
    processes = {trace.tracks[track].pid for track in threads}
    recorded = trace.coverage.end_ns - trace.coverage.start_ns
    note = f"in {len(processes)} processes" if len(processes) > 1 else ""
    counts = {
        "async_ranges": int((trace.kind == EventKind.ASYNC).sum()),
        "instants": int((trace.kind == EventKind.INSTANT).sum()),
    }
    figures = [
        METRICS.figure("step_time_mean_ns", recorded, "Recorded time", window=FULL_TRACE),
        METRICS.figure("ranges", int(of_kind(trace.kind, *FRAMES["both"]).sum())),
        METRICS.figure("range_threads", len(threads), note=note),
        *(METRICS.figure(key, count) for key, count in counts.items() if count),
    ]
    return Figures("headline", "Headline", "", figures, "headline")


def _sentences(trace: TraceTable, names: pa.Table) -> list[Notice]:
    everything = int(names["range_own_ns"].to_numpy().sum())
    if not everything:
        return []
    notices = []
    for which, key, text in (
        (
            "busiest",
            "range_own_ns",
            "{busiest_name} has the largest self time: {busiest_ns} of {in_ranges_ns} in ranges",
        ),
        ("longest", "range_total_ns", "{longest_name} has the largest total time: {longest_ns}"),
    ):
        at = int(names[key].to_numpy().argmax())
        name = names["name"][at].as_py()
        figures = [METRICS.figure(f"{which}_name", name), METRICS.figure(f"{which}_ns", names[key][at].as_py())]
        figures += [METRICS.figure("in_ranges_ns", everything)] if which == "busiest" else []
        if count := _never_ended(trace, name):
            figures.append(METRICS.figure("never_ended", count))
            lasts = plural(count, "ends and lasts", "end and last")
            text += f"; {{never_ended}} of its ranges never {lasts} to the end of the trace"
        link = Link("stacks", {"form": "functions", "search": name, "row": name}, "Show evidence")
        notices.append(Notice("largest_cost", "info", f"{text}.", "", figures, evidence=link))
    return notices


def _never_ended(trace: TraceTable, name: str) -> int:
    rows = next((column.row for column in trace.others if column.key == NEVER_ENDED), np.empty(0, np.int32))
    on_threads = rows[of_kind(trace.kind[rows], *FRAMES["both"])]
    labels = labels_of(trace)
    called = labels.texts.take(pa.array(labels.of[trace.name[on_threads]]))
    return int(np.count_nonzero(pc.equal(called, name).to_numpy(zero_copy_only=False)))


def _threads(trace: TraceTable) -> Frame:
    rows = np.flatnonzero(of_kind(trace.kind, *FRAMES["both"]))
    events = np.bincount(thread_numbers(trace, rows))  # includes ranges of 0 ns, which are not frames
    threads = sorted(threads_of(trace), key=lambda thread: -thread.host_ns)[:LISTED]
    data = pa.table(
        {
            "thread": pa.array([thread.name for thread in threads], pa.string()),
            "thread_key": pa.array([thread.key for thread in threads], pa.string()),
            "ranges": pa.array([int(events[thread.number]) for thread in threads], pa.int64()),
            "thread_ranges_ns": pa.array([thread.host_ns for thread in threads], pa.int64()),
        }
    )
    columns = METRICS.columns(*data.column_names, hidden=("thread_key",))
    sort = Sort("thread_ranges_ns", True)
    return Frame(
        "busiest_threads", "Threads with the most time in ranges", columns, data, ("thread_key",), "thread", sort
    )


def _operations(trace: TraceTable) -> Frame:
    rows = np.flatnonzero(trace.kind == EventKind.ASYNC)
    groups = group(trace.name[rows])
    total = groups.sum(trace.dur_ns[rows])
    longest = np.zeros(len(total), np.int64)
    np.maximum.at(longest, groups.of, trace.dur_ns[rows])
    order = np.argsort(-total, kind="stable")[:LISTED]
    data = pa.table(
        {
            "name": trace.strings.take(trace.name[rows[groups.first[order]]]),
            "calls": groups.sum(np.ones(len(rows), np.int64))[order],
            "operation_total_ns": total[order],
            "operation_max_ns": longest[order],
        }
    )
    columns = METRICS.columns(*data.column_names)
    sort = Sort("operation_total_ns", True)
    return Frame("operations", "Operations and totals without a thread", columns, data, ("name",), "name", sort)
