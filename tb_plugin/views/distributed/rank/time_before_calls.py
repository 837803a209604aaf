"""Time before each collective, split into disjoint activities.

The time before a collective starts at the end of the worker's previous collective in the same group.
"""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import HOST, Cause
from tb_plugin.analysis.idle.host import rows_in
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group, side_by_side, stable_order
from tb_plugin.lib.intervals import Ranges, first_in, measure_within, union
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.distributed.rank.calls import Calls

# by priority: overlapping activities are attributed to the first; the parts sum to before_ns
PARTS = (
    "before_compute_ns", "before_communication_ns", "before_copy_ns", "before_input_ns", "before_host_ns",
    "before_idle_ns",
)  # fmt: skip


def before_calls(trace: TraceTable, calls: Calls, compute: Ranges, communication: Ranges) -> dict[str, Int64]:
    """Returns ``before_ns`` and the parts of ``before_ns`` for each call.

    ``compute`` and ``communication`` are the busy times of the worker (``communication.py``).
    """
    start, end = _windows(trace, calls)
    length = end - start
    copies = of_kind(trace.kind, EventKind.MEMCPY, EventKind.MEMSET)
    sets = first_in(compute, communication, union(trace.start_ns[copies], trace.ends(copies)), *_free(trace))
    parts = [measure_within(ranges, start, end) for ranges in sets]
    return {"before_ns": length, **dict(zip(PARTS, (*parts, length - sum(parts)), strict=True))}


def _windows(trace: TraceTable, calls: Calls) -> tuple[Int64, Int64]:
    """Returns start and end of the time before each call.

    The time starts when all earlier calls of the group have ended. For the first call of the group, the time starts
    with the step.
    """
    begin = trace.start_ns[calls.row]
    if not len(calls):
        return begin, begin
    # Coalesced calls share the time before them.
    of = group(calls.metadata.group, calls.metadata.ranks).of
    ones = group(of, calls.row)
    of, row = of[ones.first], calls.row[ones.first]
    order = stable_order(of)
    track, start, end = of[order], trace.start_ns[row[order]], trace.ends(row[order])
    axis = side_by_side((track, end))[0]
    place = np.empty(len(row), np.int64)
    by_end = stable_order(axis)
    place[by_end] = np.arange(len(row))
    # Latest end so far within a group: a running maximum of places, which are larger for later groups.
    reach = end[by_end][np.maximum.accumulate(place)]
    is_first = np.append(True, track[1:] != track[:-1])
    step = calls.step[ones.first][order]
    opened = np.where(step == MISSING, trace.start_ns[0], np.append(trace.steps.start_ns, 0)[step])
    since = np.empty(len(row), np.int64)
    since[order] = np.minimum(np.where(is_first, opened, np.append(0, reach[:-1])), start)
    return since[ones.of], begin


def _free(trace: TraceTable) -> tuple[Ranges, Ranges]:
    """Returns two sets of time ranges: data loading, and other time in which devices are idle because of the host.

    If the trace has no devices, the second set covers the whole trace.
    """
    devices = device_busy(trace)
    if not devices:
        rows = rows_in(trace, Cause.INPUT)
        always = union(trace.start_ns[:1], np.full(min(len(trace), 1), trace.coverage.end_ns))
        return union(trace.start_ns[rows], trace.ends(rows)), always
    accounts = [idle_account(trace, device) for device in devices]
    start, end, cause = (
        np.concatenate(columns)
        for columns in zip(*((each.start_ns, each.end_ns, each.cause) for each in accounts), strict=True)
    )
    loads, busy = cause == Cause.INPUT, np.isin(cause, (*HOST, Cause.PYTHON))
    return union(start[loads], end[loads]), union(start[busy], end[busy])
