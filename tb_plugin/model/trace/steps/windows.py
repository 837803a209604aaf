"""Profiler steps and their windows.

A step lasts on the host from its ProfilerStep annotation's start to its end; its device work may end later, so the
window is extended to the last device event that the step launched, and starts no earlier than the end of the step
before, the first no earlier than the end of what was launched before it (docs/concepts/time.md, "Step").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.served_work import Mode, Served
from tb_plugin.model.trace.table import Steps

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

STEP_NAME = re.compile(r"ProfilerStep#(\d+)")
# Label of the single step of a trace without steps (as in the old plugin).
SINGLE_STEP_LABEL = "0"
# How steps were found.
PROFILER, ANNOTATION, STATED, INFERRED = "profiler", "annotation", "stated", "inferred"
# A last step with a smaller share of its predecessor's device events was cut off by the profiler.
INCOMPLETE_BELOW = 0.8


@dataclass(frozen=True, eq=False)
class DeviceWork:
    """Device events: their bounds, and bounds (-1 = not recorded) and number of their launches.

    ``correlation`` counts launches in order; 0 or less if an event has none. ``stream`` numbers the queues; work on
    each starts in launch order.
    """

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
) -> Steps:
    """Returns steps from their host annotations, sorted by start; no annotation means no steps.

    ``whole``: the device work of the last steps is known to be complete.
    """
    served = served or Served()
    if not labels:
        return Steps()
    # No step lies in another: one whose end was not recorded lasts until the next begins.
    within = host_end[:-1] >= host_end[1:]
    host_end = host_end.copy()
    host_end[:-1][within] = np.minimum(host_end[:-1], host_start[1:])[within]
    start, end, count = _extend(host_start, host_end, work)
    keep = len(labels) if whole else _complete(count, served.mode if len(served) else None)
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
    """Returns the single step of a trace without steps: host work, and device work that was not queued earlier.

    A launching call counts like an operator, because replays of graphs have none around them. Without any recorded
    launch, earlier queued work cannot be identified.
    """
    launched = work.launch_start_ns != MISSING
    if launched.any():
        start = min(start, int(work.launch_start_ns[launched].min()))
        end = max(end, int(work.launch_end_ns[launched].max()))
    elif len(launched):
        start = min(start, int(work.start_ns.min()))
    host_start, host_end = np.array([start], np.int64), np.array([end], np.int64)
    extended_start, extended_end, _ = _extend(host_start, host_end, work)
    # Work whose launch was lost ends the recording too.
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
    for i in range(n):  # steps are few and each depends on the one before
        start[i] = max(previous, host_start[i])
        end[i] = max(last[i], start[i])
        previous = int(end[i])
    return start, end, count


def _launched_earlier(begin: int, step: Int64, work: DeviceWork) -> Bool:
    """Which device events of no step (``step`` is that which launched each) were launched before the first one begins.

    Where the launch was not recorded, its number tells: one below all that the steps launched was queued before them.
    Work without a number was queued before them only if it starts before the first step. Neither holds if work of the
    first step starts before it on its stream.
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


def _complete(count: Int64, modes: npt.NDArray[np.uint8] | None = None) -> int:
    """How many steps to keep: the profiler often stops before the device work of the last ones was recorded.

    A step is compared with the one before it of its mode; one in which no request was there has no work.
    """
    if len(count) < 2 or not count.any():
        return len(count)
    mode = np.zeros(len(count), np.uint8) if modes is None else modes
    last = int(np.flatnonzero(count)[-1])
    before = np.flatnonzero(mode[:last] == mode[last])
    if len(before) and INCOMPLETE_BELOW * count[before[-1]] > count[last]:
        return last
    while last + 1 < len(count) and mode[last + 1] == Mode.IDLE:
        last += 1
    return last + 1
