"""What is to know of the recording that was to tell of replayed graphs: where it tells nothing, and why."""

from __future__ import annotations

from tb_plugin.analyses.overview.metrics import METRICS
from tb_plugin.analyses.replays.origins import origins_of
from tb_plugin.payloads import Notice
from tb_plugin.trace.table import TraceTable


def capture_notices(trace: TraceTable) -> list[Notice]:
    """Returns why the capture of a trace tells nothing of some graphs; none where there is no capture, or nothing to say."""
    captured = trace.captured
    if not captured.source:
        return []
    source = METRICS.figure("capture", captured.source)
    if not captured:
        text = "{capture} holds neither captures nor device work: it tells nothing of the graphs that are replayed."
        return [Notice("capture_empty", "medium", text, "Choose another capture, or none.", [source])]
    refused = [each for each in origins_of(trace).refusals if each.source]
    if not refused:
        return []
    # Of several recordings the one that is meant, where it is one alone.
    sources = {each.source for each in refused}
    source = METRICS.figure("capture", captured.source if len(sources) > 1 else sources.pop())
    return [
        Notice(
            "capture_refused",
            "medium",
            "{capture} does not tell of {affected} of the graphs that are replayed: {capture_difference}",
            "What is told of these graphs is what the trace itself tells. Choose the capture of this process: that of "
            "another model, version or batch has other kernels.",
            [
                source,
                METRICS.figure("affected", len({each.graph for each in refused}), "Graphs"),
                METRICS.figure("capture_difference", refused[0].text),
            ],
        )
    ]
