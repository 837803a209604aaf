"""The requested time window or steps, for allocator events."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.base import Params, int_param
from tb_plugin.analysis.selection import chosen_steps
from tb_plugin.errors import BadRequest
from tb_plugin.lib.intervals import Ranges, contains, intersect, union
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class MemoryRange(msgspec.Struct, frozen=True, eq=False):
    """A requested time window. ``parts`` contains the entire window, or the selected steps."""

    start_ns: int
    end_ns: int
    parts: Ranges
    is_end_recorded: bool = True
    """Whether events after the time window are loaded too. False for a trace that was opened as a window."""

    def holds(self, times: Int64) -> Bool:
        """Returns, for each time, whether it is in one of the ``parts``."""
        return contains(self.parts, times)

    @property
    def begins(self) -> Int64:
        """Returns the start of each part, or the start of the window if there are no parts."""
        return self.parts.start if len(self.parts) else np.array([self.start_ns])


def window_of(trace: TraceTable, params: Params) -> MemoryRange:
    """Returns the requested time window. Raises BadRequest if the end of the window precedes its start."""
    times = np.concatenate((trace.memory.time_ns, trace.totals.time_ns))
    first = min(trace.coverage.start_ns, int(times.min(initial=trace.coverage.start_ns)))
    last = max(trace.coverage.end_ns, int(times.max(initial=trace.coverage.end_ns)))
    start, end, steps = first, last, None
    if params.steps is not None:
        chosen = chosen_steps(trace, params.steps)
        steps = union(trace.steps.host_start_ns[chosen], trace.steps.host_end_ns[chosen])
        if len(steps):
            start, end = int(steps.start[0]), int(steps.end[-1])
    requested = [int_param(params, key) for key in ("start_ns", "end_ns")]
    start = start if requested[0] is None else min(max(requested[0], first), last)
    end = end if requested[1] is None else min(max(requested[1], first), last)
    if end < start:
        raise BadRequest("The window ends before it starts.", "end_ns", f"start_ns={start}, end_ns={end}.")
    # The end is inclusive, so that the last event of a trace counts. The end of a step is exclusive.
    parts = union(np.array([start]), np.array([end + 1]))
    return MemoryRange(start, end, parts if steps is None else intersect(parts, steps), trace.coverage.full is None)
