"""Device, host and wait time of backward operators."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.backward import backward_operators
from tb_plugin.analysis.blocking_calls import waits_for_device
from tb_plugin.analysis.selection import Selection
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import sum_by
from tb_plugin.model.trace.schema import DEVICE_WORK, EventKind
from tb_plugin.model.trace.table import TraceTable


class BackwardTimes(msgspec.Struct, frozen=True, eq=False):
    """Times of the selected backward operators in nanoseconds, excluding the times of nested backward operators."""

    at: Int64
    """Indices into ``backward_operators``."""
    device_ns: Int64
    """Device time of the work that the operator launches, excluding collectives."""
    communication_ns: Int64
    host_ns: Int64
    wait_ns: Int64
    """Time that the operator spends in calls that wait for a device."""


def backward_times(trace: TraceTable, selection: Selection) -> BackwardTimes:
    every = backward_operators(trace)
    count = len(every.row)
    at = np.flatnonzero(selection.rows[every.row])
    work = selection.of(trace, *DEVICE_WORK)
    owner, communicates = every.of[trace.operator[work]], trace.is_collective[work]
    end = np.append(trace.ends(every.row), 0)
    waits = waits_for_device(trace) & (trace.kind == EventKind.RUNTIME) & selection.rows
    waiting = np.flatnonzero(waits & ~np.append(waits, False)[trace.parent])
    waiter = every.of[trace.operator[waiting]]
    # Calls may end after their operator.
    waited = np.minimum(trace.ends(waiting), end[waiter]) - trace.start_ns[waiting]
    return BackwardTimes(
        at=at,
        device_ns=sum_by(owner, np.where(communicates, 0, trace.dur_ns[work]), count)[at],
        communication_ns=sum_by(owner, np.where(communicates, trace.dur_ns[work], 0), count)[at],
        host_ns=host_times(trace)[at],
        wait_ns=sum_by(waiter, waited, count)[at],
    )


def host_times(trace: TraceTable) -> Int64:
    """Returns the host time of each backward operator, excluding the host time of nested backward operators."""
    every = backward_operators(trace)
    dur = trace.dur_ns[every.row]
    return dur - sum_by(every.within, dur, len(dur))
