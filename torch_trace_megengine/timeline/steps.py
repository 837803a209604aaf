"""Steps between calls of ``Profiler.step``, or between optimizer steps.

The dispatching thread makes these calls; the executing thread records them again, later. As in other traces, a step
covers the work that the program requested during it: forward pass, backward pass and update.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.formats._chrome.interning import Ids
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.model.trace.extra_columns import ReportedSteps
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, EventKind, of_kind

STOPPED = "StopStep"
_OPTIMIZER, _RELEASED, _LAST = "step", "Del", "StopProfile"


class Marks(msgspec.Struct, frozen=True, eq=False):
    """End of each step, and the lane on which it was recorded."""

    time_ns: Int64
    lane: Int32


class Rows(msgspec.Struct, frozen=True, eq=False):
    """Rows in which steps are searched. Times are those in the file."""

    start_ns: Int64
    end_ns: Int64
    name: Int32
    kind: npt.NDArray[np.uint8]
    lane: Int32


def recorded_steps(rows: Rows, marks: Marks, executes: Bool, names: Ids) -> ReportedSteps | None:
    """Returns the steps, or None. A step ends at a step mark of the program. Without such marks, it ends with an
    optimizer update.

    The first step starts with the first event of the program. The last step ends when the program, the executing
    thread and the devices have finished, before the profiler stops. It does not include Python's tensor releases at
    the end.
    """
    own = rows.kind == EventKind.OVERHEAD
    updates = np.flatnonzero(
        (rows.name == names[_OPTIMIZER]) & of_kind(rows.kind, EventKind.ANNOTATION, EventKind.PYTHON)
    )
    marked = len(marks.time_ns) > 0
    marks = marks if marked else Marks(rows.end_ns[updates], rows.lane[updates])
    marks, lane = _of_one_lane(marks, executes)
    if lane == MISSING:
        return None
    stops = rows.start_ns[own & (rows.name == names[_LAST])]
    stop = int(stops.min() if len(stops) else rows.end_ns.max())
    host = of_kind(rows.kind, EventKind.OPERATOR, EventKind.RUNTIME, EventKind.PYTHON, EventKind.MODULE)
    host |= rows.kind == EventKind.ANNOTATION
    host &= rows.name != names[_RELEASED]
    begin = int(rows.start_ns[host & ((rows.lane == lane) | executes[lane])].min(initial=stop))
    works = (host | of_kind(rows.kind, *DEVICE_WORK)) & (rows.start_ns < stop)
    end = min(stop, int(rows.end_ns[works].max(initial=begin)))
    bounds = np.unique(np.concatenate(([begin], marks.time_ns[marks.time_ns > begin])))
    operators = rows.start_ns[rows.kind == EventKind.OPERATOR]
    if marked and (operators >= bounds[-1]).any() and end > bounds[-1]:
        bounds = np.append(bounds, end)
    if len(bounds) < 2:
        return None
    return ReportedSteps(tuple(str(number) for number in range(len(bounds) - 1)), bounds[:-1], bounds[1:])


def _of_one_lane(marks: Marks, executes: Bool) -> tuple[Marks, int]:
    """Returns the marks of one thread, and the lane of that thread (-1 = none). Prefers dispatching threads."""
    dispatched = ~executes[marks.lane]
    lanes = marks.lane[dispatched] if dispatched.any() else marks.lane
    if not len(lanes):
        return marks, MISSING
    chosen = marks.lane == lanes[0]
    return Marks(marks.time_ns[chosen], marks.lane[chosen]), int(lanes[0])
