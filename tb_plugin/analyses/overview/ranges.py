"""The overview of a trace of which nothing is known but its ranges: what took the time, and on which threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analyses.base import Frame
from tb_plugin.analyses.overview.metrics import METRICS
from tb_plugin.analyses.selection import Selection
from tb_plugin.analyses.stack_frames import FRAMES
from tb_plugin.analyses.stacks import Choice, named_functions, threads_frame
from tb_plugin.payloads import Figures, Link, Notice, Notices, Payload, Sort
from tb_plugin.trace.schema import EventKind, of_kind
from tb_plugin.trace.table import TraceTable

LISTED = 20
"""So many names and threads are listed: the stacks have all of them."""
_OF_PYTHON = ("package", "framework", "thread_wait_ns", "thread_idle", "thread_key")


def ranges_payloads(trace: TraceTable, selection: Selection) -> tuple[dict[str, Payload], dict[str, Frame]]:
    """Returns figures, sentences about what took most time, and tables of names, threads and operations."""
    frames: dict[str, Frame] = {}
    payloads: dict[str, Payload] = {"headline": _headline(trace)}
    if of_kind(trace.kind, *FRAMES["both"]).any():
        functions = named_functions(trace, selection, Choice(threads=("all",)))
        payloads |= {"largest_costs": Notices("largest_costs", "Largest costs", "answer", _sentences(functions))}
        frames["longest_ranges"] = _first(functions, "longest_ranges", "Ranges with most time of their own")
        threads = threads_frame(trace, selection, Choice(threads=("all",)))
        frames["busiest_threads"] = _first(threads, "busiest_threads", "Threads with most time in ranges")
    if (trace.kind == EventKind.ASYNC).any():
        frames["operations"] = _operations(trace)
    return payloads, frames


def _headline(trace: TraceTable) -> Figures:
    threads = {track for track in np.unique(trace.track).tolist() if not trace.tracks[track].is_async}
    processes = {trace.tracks[track].pid for track in threads}
    recorded = trace.coverage.end_ns - trace.coverage.start_ns
    ranges = int(of_kind(trace.kind, *FRAMES["both"]).sum())
    figures = [
        METRICS.figure("step_time_mean_ns", recorded, "Recorded time", window="the whole trace"),
        METRICS.figure("ranges", ranges),
        METRICS.figure(
            "range_threads", len(threads), note=f"in {len(processes)} processes" if len(processes) > 1 else ""
        ),
    ]
    operations = int((trace.kind == EventKind.ASYNC).sum())
    instants = int((trace.kind == EventKind.INSTANT).sum())
    figures += [METRICS.figure("async_ranges", operations)] if operations else []
    figures += [METRICS.figure("instants", instants)] if instants else []
    return Figures("headline", "Headline", "", figures, "headline")


def _sentences(functions: Frame) -> list[Notice]:
    """Which name has most time of its own, and which is open longest."""
    data = functions.data
    own, total = data["function_host_self_ns"], data["function_host_ns"]
    everything = pc.sum(own).as_py() or 0
    if not everything:
        return []
    notices = []
    for which, column, text in (
        ("busiest", own, "Of {in_ranges_ns} in ranges most stands in {busiest_name} itself: {busiest_ns}"),
        ("longest", total, "Most time, with all that is in it, takes {longest_name}: {longest_ns}"),
    ):
        at = int(np.argmax(column.to_numpy()))
        name, time = data["name"][at].as_py(), column[at].as_py()
        figures = [METRICS.figure(f"{which}_name", name), METRICS.figure(f"{which}_ns", time)]
        figures += [METRICS.figure("in_ranges_ns", everything)] if which == "busiest" else []
        link = Link("stacks", {"form": "functions", "search": name}, "Show evidence")
        notices.append(Notice("largest_cost", "info", f"{text}.", "", figures, evidence=link))
    return notices


def _first(frame: Frame, name: str, title: str) -> Frame:
    """The head of a table of the stacks, without what only Python calls have, and without kinds where there is one."""
    alike = "node_kind" in frame.data.column_names and len(pc.unique(frame.data["node_kind"])) == 1
    without = (*_OF_PYTHON, *(("node_kind",) if alike else ()))
    columns = [column for column in frame.columns if column.metric.key not in without]
    return replace(frame, name=name, title=title, columns=columns, data=frame.data.slice(0, LISTED))


def _operations(trace: TraceTable) -> Frame:
    """Operations on no thread by name, that with most time first."""
    rows = np.flatnonzero(trace.kind == EventKind.ASYNC)
    table = pa.table({"name": trace.strings.take(trace.name[rows]), "dur": trace.dur_ns[rows]})
    sums = table.group_by("name").aggregate([("dur", "count"), ("dur", "sum"), ("dur", "max")])
    data = pa.table(
        {
            "name": sums["name"],
            "calls": sums["dur_count"],
            "operation_total_ns": sums["dur_sum"],
            "operation_max_ns": sums["dur_max"],
        }
    )
    data = data.sort_by([("operation_total_ns", "descending"), ("name", "ascending")]).slice(0, LISTED)
    columns = METRICS.columns(*data.column_names)
    return Frame(
        "operations", "Asynchronous operations", columns, data, ("name",), "name", Sort("operation_total_ns", True)
    )
