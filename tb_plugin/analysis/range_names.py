"""Annotations and calls by name, with their self and total times."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.forest import Spans, is_top_level
from tb_plugin.analysis.stack_frames import labels_of, stack_frames
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.table import TraceTable


def ranges_by_name(trace: TraceTable) -> pa.Table:
    """Returns one row per name (memory addresses removed), longest self time first."""
    frames = stack_frames(trace, "both", "none")
    labels = labels_of(trace)
    label = labels.of[trace.name[frames.row]]
    start, end = trace.start_ns[frames.row], trace.ends(frames.row)
    outer = is_top_level(label, Spans(frames.thread, start, end))
    groups = group(label)
    own, total = groups.sum(frames.own_ns), groups.sum(np.where(outer, end - start, 0))
    order = np.lexsort((-total, -own))
    return pa.table(
        {
            "name": labels.texts.take(pa.array(label[groups.first[order]])),
            "calls": groups.sum(np.ones(len(label), np.int64))[order],
            "range_own_ns": own[order],
            "range_total_ns": total[order],
        }
    )
