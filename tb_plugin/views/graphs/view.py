"""Replayed device time of graphs, and the operators of the replays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.graphs.attribution import empty_capture_notice, way_slices
from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.analysis.phrases import count_with_noun
from tb_plugin.analysis.selection import Selection, select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, Figures, Notice, Notices, Payload
from tb_plugin.views.graphs import VIEW
from tb_plugin.views.graphs.metrics import METRICS
from tb_plugin.views.graphs.replays import SelectedReplays, selected_replays, time_by_way
from tb_plugin.views.graphs.tables import graphs_table, nodes_table, parts_of, replays_table

LOW_ATTRIBUTION_SHARE = 0.5
"""If operators are known for less than this share of replayed device time, the page advises how to record more."""


class GraphsAnalysis(DeclaredView, entry=VIEW):
    selects = "events"

    def part(self, trace: TraceTable, params: Params) -> Part:
        selection = select_rows(trace, *params.chosen)
        selected = selected_replays(trace, selection.rows)
        facts = _facts(trace, selection, selected)
        parts = parts_of(selected)
        tables = (graphs_table(trace, selected, parts), nodes_table(trace, selected, parts), replays_table(selected))
        frames = {frame.name: frame for frame in tables}
        payloads: dict[str, Payload] = {"summary": _summary(facts), "coverage": _coverage(selected, facts)}
        if notes := _notes(trace, selected, facts):
            payloads["graph_notes"] = Notices("graph_notes", "Notes", "data", notes)
        return Part(selection.coverage, facts, frames, payloads, (*payloads, *frames))


def _facts(trace: TraceTable, selection: Selection, selected: SelectedReplays) -> dict[str, int | float | None]:
    work, has_gap = selected.work, selected.gap_ns != MISSING
    device = int(selected.device_ns.sum())
    every = int(trace.dur_ns[selection.of(trace, *DEVICE_WORK)].sum())
    times = time_by_way(work)
    return {
        "graphs.count": len(np.unique(selected.graph)),
        "graphs.replays": len(selected),
        "graphs.device_ns": device,
        "graphs.share": device / every if every else None,
        "graphs.with_operator_ns": int(work.dur_ns[work.operator != MISSING].sum()),
        **{f"graphs.by_{way.name.lower()}_ns": times[way] for way in Way if way != Way.NONE},
        "graphs.untied_ns": times[Way.NONE],
        "graphs.node_gaps_ns": int(selected.node_gaps_ns.sum()),
        "graphs.replay_gaps_ns": int(selected.gap_ns[has_gap].sum()) if has_gap.any() or not len(selected) else None,
        "graphs.launch_ns": int(selected.launch_ns[selected.call != MISSING].sum()),
    }


def _summary(facts: Mapping[str, int | float | None]) -> Figures:
    device = facts["graphs.device_ns"]
    tied = (facts["graphs.with_operator_ns"] or 0) / device if device else None
    figures = [
        METRICS.figure("graph_device_ns", device, "Replayed"),
        METRICS.figure("replayed_ratio", facts["graphs.share"], "Share of device time"),
        METRICS.figure("graph_tied_ratio", tied),
        METRICS.figure("graphs", facts["graphs.count"]),
        METRICS.figure("replays", facts["graphs.replays"]),
        METRICS.figure("node_gaps_ns", facts["graphs.node_gaps_ns"]),
        METRICS.figure("replay_gaps_ns", facts["graphs.replay_gaps_ns"]),
    ]
    return Figures("summary", "Graphs", "", figures, "headline")


def _coverage(selected: SelectedReplays, facts: Mapping[str, int | float | None]) -> Breakdown:
    slices = way_slices(time_by_way(selected.work), "by", METRICS["graph_device_ns"].window)
    total = int(facts["graphs.device_ns"] or 0)
    return Breakdown("coverage", "Source of operators of replays", "", "ns", total, slices, "bar")


def _notes(trace: TraceTable, selected: SelectedReplays, facts: Mapping[str, int | float | None]) -> list[Notice]:
    found = []
    device, known = facts["graphs.device_ns"] or 0, facts["graphs.with_operator_ns"] or 0
    if empty := empty_capture_notice("graphs.capture_empty", trace, METRICS, "graph_source"):
        found.append(empty)
    elif known < LOW_ATTRIBUTION_SHARE * device and not trace.captured.source:
        text = (
            "A graph replay runs no operators. The operators are known only from the capture, which is "
            "missing from this trace."
        )
        found.append(Notice("graphs.capture_missing", "low", text, trace.recorder.todo("capture_missing")))
    agreements, shown = origins_of(trace).agreements, set(selected.graph.tolist())
    unused = [each for graph, each in agreements.items() if graph in shown and not each.is_used]
    if unused:
        best = max(unused, key=lambda each: each.agreeing / each.nodes)
        number = count_with_noun(len(unused), "graph matches", "graphs match")
        found.append(Notice("graphs.capture_unlike", "info", f"{number} no capture: at most {best} match.", ""))
    unlike = int((selected.work.node == MISSING).sum())
    if unlike:
        text = (
            f"{unlike} kernels, copies or memsets are in replays that differ from other replays of their "
            "graph. The table of nodes excludes this work."
        )
        found.append(Notice("graphs.unlike", "info", text, ""))
    if selected.replays.unlaunched:
        text = (
            f"{selected.replays.unlaunched} kernels, copies or memsets of graphs have no recorded launch, so their "
            "replay is unknown."
        )
        found.append(Notice("graphs.untied", "info", text, ""))
    return found
