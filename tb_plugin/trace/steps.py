"""Profiler steps and their windows.

A step lasts on the host from its ProfilerStep annotation's start to its end; its device work may end later, so the
window is extended to the last device event that the step launched, and starts no earlier than the end of the step
before (docs/metrics.md, "Step").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.table import Steps

Int64 = npt.NDArray[np.int64]

STEP_NAME = re.compile(r"ProfilerStep#(\d+)")
WHOLE_TRACE = "0"
"""Label of the one step of a trace without steps (the old plugin's)."""
INCOMPLETE_BELOW = 0.8
"""A last step with less than this share of its predecessor's device events was cut off by the profiler."""


@dataclass(frozen=True, eq=False)
class DeviceWork:
    """Device events by time: their bounds, and the bounds of the call that launched each (-1 = none recorded)."""

    start_ns: Int64
    end_ns: Int64
    launch_start_ns: Int64
    launch_end_ns: Int64


def find_steps(labels: list[str], host_start: Int64, host_end: Int64, work: DeviceWork) -> Steps:
    """Steps from their host annotations, sorted by start. Raises nothing; no annotation means no steps."""
    if not labels:
        return Steps()
    start, end, count = _extend(host_start, host_end, work)
    keep = _complete(count)
    return Steps(
        label=tuple(labels[:keep]),
        start_ns=start[:keep],
        end_ns=end[:keep],
        host_start_ns=host_start[:keep],
        host_end_ns=host_end[:keep],
        recorded=True,
        dropped=tuple(labels[keep:]),
    )


def whole_trace(start: int, end: int, work: DeviceWork) -> Steps:
    """The one step of a trace in which none was recorded: all host operators and what they launched."""
    host_start, host_end = np.array([start], np.int64), np.array([end], np.int64)
    extended_start, extended_end, _ = _extend(host_start, host_end, work)
    return Steps((WHOLE_TRACE,), extended_start, extended_end, host_start, host_end, recorded=False)


def _extend(host_start: Int64, host_end: Int64, work: DeviceWork) -> tuple[Int64, Int64, Int64]:
    """Windows extended by device work, and the number of device events that each step launched."""
    n = len(host_start)
    step = _launching_step(host_start, host_end, work)
    launched = step != MISSING
    count = np.bincount(step[launched], minlength=n)
    if not launched.any():
        return host_start, host_end, count
    first = np.full(n, np.iinfo(np.int64).max)
    last = np.full(n, np.iinfo(np.int64).min)
    np.minimum.at(first, step[launched], work.start_ns[launched])
    np.maximum.at(last, step[launched], work.end_ns[launched])
    # What was launched before the first step is not the first step's time.
    earlier = work.end_ns[~launched & (work.end_ns < first[0])] if count[0] else np.empty(0, np.int64)
    previous = int(max(host_start[0], earlier.max(initial=host_start[0])))
    start, end = host_start.copy(), host_end.copy()
    for i in range(n):  # steps are few and each depends on the one before
        start[i] = max(previous, host_start[i])
        end[i] = max(host_end[i], last[i] if count[i] else start[i], start[i])
        previous = int(end[i])
    return start, end, count


def _launching_step(host_start: Int64, host_end: Int64, work: DeviceWork) -> Int64:
    """The step whose host interval holds the whole launch of each device event, or -1."""
    index = np.searchsorted(host_start, work.launch_start_ns, side="right") - 1
    inside = (index >= 0) & (work.launch_end_ns <= host_end[np.maximum(index, 0)]) & (work.launch_start_ns >= 0)
    return np.where(inside, index, MISSING)


def _complete(count: Int64) -> int:
    """How many steps to keep: the profiler often stops before the device work of the last ones was recorded."""
    if len(count) < 2 or not count.any():
        return len(count)
    last = int(np.flatnonzero(count)[-1])
    if last > 0 and INCOMPLETE_BELOW * count[last - 1] > count[last]:
        last -= 1
    return last + 1
