"""The sentence about the peak of a memory flow, and what its numbers leave out."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.phrases import noun
from tb_plugin.model.memory_flow.table import MemoryFlow, levels_of
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Notice, Notices
from tb_plugin.views.memory_flow.metrics import METRICS
from tb_plugin.views.memory_flow.tables import used_by
from tb_plugin.views.memory_flow.tensor_names import NO_NAME, origins_of


def answer_of(flow: MemoryFlow) -> Notices:
    """Returns the sentence: when most was in use, by how many tensors, and who made most of that."""
    levels = levels_of(flow)
    if levels.peak == MISSING or not levels.used[levels.peak]:
        return Notices("answer", "Answer", "answer", [])
    at = int(levels.time_ns[levels.peak])
    alive = flow.alive_at(at)
    origins = origins_of(flow)
    by = used_by(flow, alive, origins.producer[alive], len(origins.producers))
    named = np.array([name != NO_NAME for name in origins.producers])
    most, unnamed = int(np.where(named, by, -1).argmax()), int(by[~named].sum())
    parts = ["{producer_moment_bytes} of it made by {tensor_producer}"] if named[most] and by[most] else []
    parts += ["{unnamed_bytes} in tensors without a name"] if unnamed else []
    text = "Most memory was in use at {flow_peak_time_ns}: {flow_peak_bytes} by {flow_peak_tensors} "
    text += f"{noun(len(alive), 'tensor')}; {', '.join(parts)}."
    figures = [
        METRICS.figure("flow_peak_time_ns", at),
        METRICS.figure("flow_peak_bytes", int(levels.used[levels.peak])),
        METRICS.figure("flow_peak_tensors", len(alive)),
        METRICS.figure("producer_moment_bytes", int(by[most])),
        METRICS.figure("tensor_producer", origins.producers[most]),
        METRICS.figure("unnamed_bytes", unnamed),
    ]
    return Notices("answer", "Answer", "answer", [Notice("flow_peak", "info", text, "", figures)])


def data_notices(flow: MemoryFlow) -> Notices:
    """Returns what is to be known of these numbers."""
    notices = []
    levels = levels_of(flow)
    if unreleased := int((~flow.is_released).sum()):
        notices.append(
            Notice(
                "flow_not_released",
                "info",
                f"{{flow_unreleased}} {noun(unreleased, 'tensor was', 'tensors were')} not released while recording: drawn "
                "to its end.",
                "",
                [METRICS.figure("flow_unreleased", unreleased)],
            )
        )
    if not levels.is_exact:
        text = (
            "There are too many pieces to tell what tensors share: memory in use is the sum of their sizes, and too high "
            "where tensors are views of others."
        )
        notices.append(Notice("flow_not_exact", "low", text, ""))
    elif (levels.used != levels.tensors).any():
        shared = int((levels.tensors - levels.used).max())
        text = "Up to {flow_most_shared_bytes} were shared at a time, as by views: memory in use counts them once."
        notices.append(Notice("flow_shared", "info", text, "", [METRICS.figure("flow_most_shared_bytes", shared)]))
    return Notices("data_quality", "About these numbers", "data", notices)
