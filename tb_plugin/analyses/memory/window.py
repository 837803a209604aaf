"""Which allocator events a request is about: a range of time, the chosen steps, or all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.base import Params
from tb_plugin.analyses.selection import chosen_steps
from tb_plugin.errors import BadRequest
from tb_plugin.trace.intervals import Ranges, covered_before, union
from tb_plugin.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Window:
    """``[start_ns, end_ns]``, of which only ``steps`` count where steps were chosen."""

    start_ns: int
    end_ns: int
    steps: Ranges | None
    whole: bool
    """Everything there is."""

    def holds(self, times: Int64) -> Bool:
        """Whether each time lies in it."""
        inside: Bool = (times >= self.start_ns) & (times <= self.end_ns)
        if self.steps is None:
            return inside
        return inside & (covered_before(self.steps, times + 1) > covered_before(self.steps, times))


def window_of(trace: TraceTable, params: Params) -> Window:
    """The window asked for. Raises BadRequest for one that is none."""
    times = trace.memory.time_ns
    first = min(trace.coverage.start_ns, int(times.min(initial=trace.coverage.start_ns)))
    last = max(trace.coverage.end_ns, int(times.max(initial=trace.coverage.end_ns)))
    start, end, steps = first, last, None
    if params.steps is not None:
        chosen = chosen_steps(trace, params.steps)
        steps = union(trace.steps.host_start_ns[chosen], trace.steps.host_end_ns[chosen])
        if len(steps):
            start, end = int(steps.start[0]), int(steps.end[-1])
    asked = [whole_number(params, key) for key in ("start_ns", "end_ns")]
    start = start if asked[0] is None else min(max(asked[0], first), last)
    end = end if asked[1] is None else min(max(asked[1], first), last)
    if end < start:
        raise BadRequest("The window ends before it starts.", "end_ns", f"start_ns={start}, end_ns={end}.")
    return Window(start, end, steps, steps is None and asked == [None, None])


def whole_number(params: Params, key: str) -> int | None:
    """One of the view's own parameters, None when it is not given. Raises BadRequest."""
    text = params.get(key)
    if not text:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise BadRequest(f"{key} must be a whole number.", key, f"Got {text[:40]!r}.") from error
