"""Profiler steps and their time windows.

On the CPU, a step lasts as long as its ProfilerStep annotation. The window of a step extends to the end of the last
device event that the step launched. Each window starts at the end of the previous window or later. The first window
starts after all work that was launched before it (docs/concepts/time.md, "Step").
"""

from __future__ import annotations

import re

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.served_work import Mode, Served
from tb_plugin.model.trace.table import Steps

STEP_NAME = re.compile(r"ProfilerStep#(\d+)")
# Label of the single step of a trace without steps, as in torch_tb_profiler.
SINGLE_STEP_LABEL = "0"
# Sources of steps.
PROFILER, ANNOTATION, STATED, INFERRED = "profiler", "annotation", "stated", "inferred"
# A last step with a smaller share of its predecessor's device events is incomplete.
INCOMPLETE_BELOW = 0.8


class DeviceWork(msgspec.Struct, frozen=True, eq=False):
    """Device events. ``correlation`` ascends in launch order (<= 0: none); work of a ``stream`` starts in that order."""

    start_ns: Int64
    end_ns: Int64
    launch_start_ns: Int64
    launch_end_ns: Int64
    correlation: Int64
    stream: Int32


def find_steps(
    labels: list[str],
    host_start: Int64,
    host_end: Int64,
    work: DeviceWork,
    *,
    found: str = PROFILER,
    framework: str = "",
    served: Served | None = None,
    whole: bool = False,
    is_truncated: bool = False,
) -> Steps:
    """Returns the steps for CPU annotations, which must be sorted by start. Returns no steps if there are no
    annotations.

    Incomplete steps at the end of the trace are dropped, unless ``whole`` is set. Callers set ``whole`` if the
    device work of the last steps is complete. ``is_truncated``: the end of the file is missing.
    """
    served = served or Served()
    if not labels:
        return Steps()
    # Steps never nest. If a step's end was not recorded, the step ends where the next one starts.
    within = host_end[:-1] >= host_end[1:]
    host_end = host_end.copy()
    host_end[:-1][within] = np.minimum(host_end[:-1], host_start[1:])[within]
    start, end, count = _extend(host_start, host_end, work)
    keep = len(labels) if whole else _complete(count, served.mode if len(served) else None, is_truncated)
    return Steps(
        label=tuple(labels[:keep]),
        start_ns=start[:keep],
        end_ns=end[:keep],
        host_start_ns=host_start[:keep],
        host_end_ns=host_end[:keep],
        recorded=True,
        dropped=tuple(labels[keep:]),
        source=found,
        framework=framework,
        served=served.take(slice(0, keep)),
    )


def single_step(start: int, end: int, work: DeviceWork) -> Steps:
    """Returns the whole trace as one step, excluding device work that was launched before the start of the trace.

    The step also includes launch calls after ``end`` (the end of the last operator), because graph replays are
    launched outside operators. If no launch was recorded, earlier work cannot be recognized and is included.
    """
    launched = work.launch_start_ns != MISSING
    if launched.any():
        start = min(start, int(work.launch_start_ns[launched].min()))
        end = max(end, int(work.launch_end_ns[launched].max()))
    elif len(launched):
        start = min(start, int(work.start_ns.min()))
    host_start, host_end = np.array([start], np.int64), np.array([end], np.int64)
    extended_start, extended_end, _ = _extend(host_start, host_end, work)
    # Include device work without a recorded launch.
    extended_end = np.maximum(extended_end, work.end_ns.max(initial=end))
    return Steps((SINGLE_STEP_LABEL,), extended_start, extended_end, host_start, host_end, recorded=False)


def _extend(host_start: Int64, host_end: Int64, work: DeviceWork) -> tuple[Int64, Int64, Int64]:
    n = len(host_start)
    step = _launching_step(host_start, host_end, work)
    launched = step != MISSING
    count = np.bincount(step[launched], minlength=n)
    if not launched.any():
        return host_start, host_end, count
    last = host_end.copy()
    np.maximum.at(last, step[launched], work.end_ns[launched])
    earlier = _launched_earlier(int(host_start[0]), step, work) & (work.start_ns < last[0])
    previous = min(int(work.end_ns[earlier].max(initial=host_start[0])), int(last[0]))
    start, end = host_start.copy(), host_end.copy()
    for i in range(n):  # there are few steps, and each depends on the previous one
        start[i] = max(previous, host_start[i])
        end[i] = max(last[i], start[i])
        previous = int(end[i])
    return start, end, count


def _launched_earlier(begin: int, step: Int64, work: DeviceWork) -> Bool:
    """Returns, for each device event outside all steps, whether it was launched before the first step begins.

    ``step`` is the step that launched each event. If the launch of an event was not recorded, its correlation must
    be lower than that of all work of the steps. If the event has no correlation, it must start before the first
    step. In both cases, the event must also start before the first step's work on its stream.
    """
    unseen, launched = work.launch_start_ns == MISSING, step != MISSING
    own = np.full(int(work.stream.max(initial=0)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(own, work.stream[step == 0], work.start_ns[step == 0])
    before = (work.correlation > 0) | (work.start_ns < begin)
    before &= work.correlation < work.correlation[launched].min()
    before &= work.start_ns < own[work.stream]
    earlier: Bool = ~launched & np.where(unseen, before, work.launch_start_ns < begin)
    return earlier


def _launching_step(host_start: Int64, host_end: Int64, work: DeviceWork) -> Int64:
    index = np.searchsorted(host_start, work.launch_start_ns, side="right") - 1
    inside = (index >= 0) & (work.launch_end_ns <= host_end[np.maximum(index, 0)]) & (work.launch_start_ns >= 0)
    return np.where(inside, index, MISSING)


def _complete(count: Int64, modes: npt.NDArray[np.uint8] | None = None, is_truncated: bool = False) -> int:
    """Returns the number of complete steps: the profiler often stops before the device work of the last steps is recorded.

    In a truncated file, the last step may lack work if it has less work than the step before.
    """
    if len(count) < 2 or not count.any():
        return len(count)
    mode = np.zeros(len(count), np.uint8) if modes is None else modes
    last = int(np.flatnonzero(count)[-1])
    before = np.flatnonzero(mode[:last] == mode[last])
    least = 1.0 if is_truncated else INCOMPLETE_BELOW
    if len(before) and least * count[before[-1]] > count[last]:
        return last
    while last + 1 < len(count) and mode[last + 1] == Mode.IDLE:
        last += 1
    return last + 1
