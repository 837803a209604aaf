"""Launches one by one: a call, the first work that it launched, its phases, and what the device waited for it."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.launch_phases import LEAST_OUTLIER_NS, launch_phases, usual_latency
from tb_plugin.analysis.selection import chosen_steps
from tb_plugin.analysis.unrecorded_work import waits_for_unrecorded
from tb_plugin.lib.groupby import group, places_of
from tb_plugin.lib.intervals import Ranges, measure_within, union
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

CAPTURED = (Cause.LAUNCH, Cause.LAUNCH_LATENCY, Cause.DISPATCH)
"""Causes of idle time that a captured graph has none of between its kernels."""


@dataclass(frozen=True, eq=False)
class Launched:
    """Launches of covered work, one a call; columns by launch, in order of the first work. Nanoseconds."""

    row: Int64
    """The first work that the call launched."""
    call: Int64
    api_ns: Int64
    queue_ns: Int64
    latency_ns: Int64
    limit_ns: Int64
    """A latency beyond is an outlier, on an empty queue."""
    is_queued: Bool
    is_behind: Bool
    """Its work waits for unrecorded work: that is queue time."""
    is_short: Bool
    """The call takes longer than the kernel that it launches; a graph's launch never is."""
    starved_ns: Int64
    """Idle time of the device in the gaps that its work ended, as far as it lies in the selected steps."""
    capture_ns: Int64
    """The part of that which a captured graph would not have; 0 where the kernel is not short."""

    @property
    def is_outlier(self) -> Bool:
        """Returns which begin unusually late, though nothing is in their way."""
        return ~self.is_queued & (self.latency_ns > self.limit_ns)

    def of(self, chosen: Bool | Int64) -> Launched:
        """Returns some of the launches: those with a flag, or those at some places."""
        return Launched(*(getattr(self, each.name)[chosen] for each in fields(self)))


@remembered
def launched(trace: TraceTable, steps: tuple[str, ...] | None = None) -> Launched:
    """Returns all launches of which both the call and its work are recorded; idle time is that in these steps.

    ``steps`` None: all of the recording, or all steps of a trace that was opened as a window.
    """
    every = launch_phases(trace)
    known = np.flatnonzero(every.call != MISSING)
    # Rows are in order of time: the first of a call begins first.
    at = known[group(every.call[known]).first]
    row, call = every.row[at], every.call[at]
    api = trace.dur_ns[call]
    is_short = (trace.kind[row] == EventKind.KERNEL) & (api > trace.dur_ns[row]) & ~every.is_graph[at]
    limit = np.zeros(len(row), np.int64)
    for device in device_busy(trace):
        mine = trace.device[row] == device
        limit[mine] = np.maximum(usual_latency(trace, device)[at[mine]], LEAST_OUTLIER_NS)
    starved, capture = _waited(trace, call, _times(trace, steps))
    return Launched(
        row=row,
        call=call,
        api_ns=api,
        queue_ns=every.queue_ns[at],
        latency_ns=every.latency_ns[at],
        limit_ns=limit,
        is_queued=every.is_queued[at],
        is_behind=waits_for_unrecorded(trace)[at],
        is_short=is_short,
        starved_ns=starved,
        capture_ns=np.where(is_short, capture, 0),
    )


def _times(trace: TraceTable, steps: tuple[str, ...] | None) -> Ranges | None:
    """When idle time counts; None: always. A window and the same steps selected count the same."""
    if steps is None and trace.coverage.whole is None:
        return None
    at = chosen_steps(trace, steps)
    return union(trace.steps.start_ns[at], trace.steps.end_ns[at])


def _waited(trace: TraceTable, call: Int64, times: Ranges | None) -> tuple[Int64, Int64]:
    """How long devices idled until work of each call began, and how much of that a captured graph would not have."""

    def length(start: Int64, end: Int64) -> Int64:
        return end - start if times is None else measure_within(times, start, end)

    whole = trace.coverage.whole
    place = places_of(call, len(trace))
    starved, capture = np.zeros(len(call), np.int64), np.zeros(len(call), np.int64)
    for device, busy in device_busy(trace).items():
        if not len(busy):  # its work takes no time
            continue
        account = idle_account(trace, device)
        gaps = account.gaps
        of = place[np.append(trace.launch, MISSING)[gaps.next]]
        # Until its first work a device was not in use: no launch came late.
        begun = int(busy.start[0]) if whole is None or whole.first_work_ns == MISSING else whole.first_work_ns
        of = np.where(gaps.start_ns >= begun, of, MISSING)
        np.add.at(starved, of[of != MISSING], length(gaps.start_ns, gaps.end_ns)[of != MISSING])
        piece = of[account.gap]
        counts = (piece != MISSING) & np.isin(account.cause, CAPTURED)
        np.add.at(capture, piece[counts], length(account.start_ns, account.end_ns)[counts])
    return starved, capture
