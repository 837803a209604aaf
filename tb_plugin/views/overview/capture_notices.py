"""Notices about graph captures that do not match the replays."""

from __future__ import annotations

from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notice
from tb_plugin.views.overview.metrics import METRICS


def capture_notices(trace: TraceTable) -> list[Notice]:
    """Returns notices about graphs or nodes that captures do not identify. Without captures, the result is empty."""
    return [*_partial(trace), *_refused(trace)]


def _partial(trace: TraceTable) -> list[Notice]:
    agreements = [*origins_of(trace).agreements.values()]
    if not agreements:
        return []
    agreeing, nodes = (sum(getattr(each, key) for each in agreements) for key in ("agreeing", "nodes"))
    sources = {each.source for each in agreements}
    source = sources.pop() or "this trace"
    return [
        Notice(
            "capture_partial",
            "low",
            f"The profiler lost events: only the first {agreeing:,} of {nodes:,} nodes in {{affected}} replayed graphs match "
            "{capture}.",
            "Nodes after a lost event have no operator. Record the capture and the replays again.",
            [
                METRICS.figure("capture", trace.captured.source if sources else source),
                METRICS.figure("affected", len(agreements), "Graphs"),
            ],
        )
    ]


def _refused(trace: TraceTable) -> list[Notice]:
    captured = trace.captured
    if not captured.source:
        return []
    source = METRICS.figure("capture", captured.source)
    if not captured:
        text = "{capture} contains no captures and no device work, so it cannot name operators of replayed graphs."
        return [Notice("capture_empty", "medium", text, "Choose another capture, or none.", [source])]
    refused = [each for each in origins_of(trace).refusals if each.source]
    if not refused:
        return []
    # With several captures, the selected one, if it is unique.
    sources = {each.source for each in refused}
    source = METRICS.figure("capture", captured.source if len(sources) > 1 else sources.pop())
    return [
        Notice(
            "capture_refused",
            "medium",
            "{capture} does not match {affected} of the replayed graphs: {capture_difference}",
            (
                "For these graphs, only the trace itself is used. Choose the capture of this process; another "
                "model, version or batch has different kernels."
            ),
            [
                source,
                METRICS.figure("affected", len({each.graph for each in refused}), "Graphs"),
                METRICS.figure("capture_difference", refused[0].text),
            ],
        )
    ]
