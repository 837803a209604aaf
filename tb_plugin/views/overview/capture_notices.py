"""Notices about graph captures that do not match the replays."""

from __future__ import annotations

from typing import Literal

from tb_plugin.analysis.graphs.origins import Agreement, origins_of
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notice
from tb_plugin.views.overview.metrics import METRICS


def capture_notices(trace: TraceTable) -> list[Notice]:
    """Returns notices about graphs or nodes that captures do not identify. Without captures, the result is empty."""
    if trace.captured.source and not trace.captured:
        source = METRICS.figure("capture", trace.captured.source)
        text = "{capture} contains no captures and no device work, so it cannot name operators of replayed graphs."
        return [Notice("capture_empty", "medium", text, "Choose another capture, or none.", [source])]
    agreements = origins_of(trace).agreements.values()
    partial = [each for each in agreements if each.is_used]
    # Captures in the trace itself may be of graphs that the trace does not replay.
    unused = [each for each in agreements if not each.is_used and each.source]
    found = []
    if partial:
        agreeing, nodes = (sum(getattr(each, key) for each in partial) for key in ("agreeing", "nodes"))
        text = (
            f"The profiler lost events: only the first {agreeing:,} of {nodes:,} nodes in {{affected}} replayed graphs match "
            "{capture}."
        )
        todo = "Nodes after a lost event have no operator. Record the capture and the replays again."
        found.append(_notice("capture_partial", "low", text, todo, partial))
    if unused:
        best = max(unused, key=lambda each: each.agreeing / each.nodes)
        text = f"{{capture}} does not match {{affected}} of the replayed graphs: at most {best} match."
        todo = (
            "For these graphs, only the trace itself is used. Choose the capture of this process; another "
            "model, version or batch has different kernels."
        )
        found.append(_notice("capture_refused", "medium", text, todo, unused))
    return found


def _notice(rule: str, severity: Literal["low", "medium"], text: str, todo: str, those: list[Agreement]) -> Notice:
    source = max(each.source for each in those) or "this trace"
    figures = [METRICS.figure("capture", source), METRICS.figure("affected", len(those), "Graphs")]
    return Notice(rule, severity, text, todo, figures)
