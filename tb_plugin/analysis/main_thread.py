"""The main thread of a trace."""

from __future__ import annotations

import numpy as np

from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable


def main_thread(trace: TraceTable) -> int:
    """Returns the track of the main thread (-1 = unknown).

    This thread has the step annotations. If there are no steps, its thread id equals the process id.
    """
    if trace.steps.recorded and len(trace.steps.host_start_ns):
        is_first = (trace.start_ns == trace.steps.host_start_ns[0]) & (trace.end_ns == trace.steps.host_end_ns[0])
        rows = np.flatnonzero(is_first & (trace.kind == EventKind.ANNOTATION))
        if len(rows):
            return int(trace.track[rows[0]])
    first = [i for i, track in enumerate(trace.tracks) if not track.is_device and track.tid == track.pid]
    events = np.bincount(trace.track, minlength=len(trace.tracks))
    return max(first, key=lambda i: (int(events[i]), -i), default=MISSING)
