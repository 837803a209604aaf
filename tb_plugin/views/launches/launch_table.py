"""Launches with their phases and idle time, and launch queue depth."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.launches.phases import LEAST_OUTLIER_NS, QUEUE_FULL, launch_phases, usual_latency
from tb_plugin.analysis.launches.unrecorded_work import unrecorded_work, waits_for_unrecorded
from tb_plugin.analysis.selection import chosen_steps
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import distinct_values, group, places_of
from tb_plugin.lib.intervals import Ranges, contains, measure, measure_within, subtract, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.lib.step_function import sum_of_intervals
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

# Idle causes that disappear between the kernels of a captured graph.
CAPTURED = (Cause.LAUNCH, Cause.LAUNCH_LATENCY, Cause.DISPATCH)


class Launched(msgspec.Struct, frozen=True, eq=False):
    """Launches of device work, sorted by start of their first work.

    There is one row per launch call. Times are in nanoseconds.
    """

    row: Int64
    call: Int64
    api_ns: Int64
    queue_ns: Int64
    latency_ns: Int64
    limit_ns: Int64
    """Maximum usual latency if the queue is empty. Launches with a higher latency are outliers."""
    is_queued: Bool
    is_behind: Bool
    """Whether the launched work waits for unrecorded work. The time of this wait counts as queue time."""
    is_short: Bool
    """Whether the kernel is shorter than its launch call. False for graph launches."""
    starved_ns: Int64
    """Idle time of the device directly before the launched work, in the selected steps."""
    capture_ns: Int64
    """Part of ``starved_ns`` that a CUDA graph would avoid; 0 unless ``is_short``."""

    @property
    def is_outlier(self) -> Bool:
        """Returns, for each launch, whether its latency is unusually high although the queue was empty."""
        return ~self.is_queued & (self.latency_ns > self.limit_ns)

    def of(self, chosen: Bool | Int64) -> Launched:
        return Launched(*(getattr(self, each)[chosen] for each in self.__struct_fields__))


@cached_by_argument
def launch_table(trace: TraceTable, steps: tuple[str, ...] | None = None) -> Launched:
    """Returns all launches whose call and work are both recorded. Idle times are limited to ``steps``.

    If ``steps`` is None, idle times cover the entire recording. If only a window is loaded, they cover the complete
    steps in the window.
    """
    every = launch_phases(trace)
    known = np.flatnonzero(every.call != MISSING)
    # Rows are in order of time, so the first of a call starts first.
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
    """Returns the time ranges to which idle times are limited; None = no limit.

    If only a window is loaded, idle times are limited to the complete steps in the window.
    """
    if steps is None and trace.coverage.full is None:
        return None
    at = chosen_steps(trace, steps)
    return union(trace.steps.start_ns[at], trace.steps.end_ns[at])


def _waited(trace: TraceTable, call: Int64, times: Ranges | None) -> tuple[Int64, Int64]:
    """Returns the idle time directly before the work of each call, and the part of this idle time that a CUDA graph
    would avoid.
    """

    def length(start: Int64, end: Int64) -> Int64:
        return end - start if times is None else measure_within(times, start, end)

    whole = trace.coverage.full
    place = places_of(call, len(trace))
    starved, capture = np.zeros(len(call), np.int64), np.zeros(len(call), np.int64)
    for device, busy in device_busy(trace).items():
        if not len(busy):  # all of its work has zero duration
            continue
        account = idle_account(trace, device)
        gaps = account.gaps
        of = place[np.append(trace.launch, MISSING)[gaps.next]]
        # A device was not in use before its first work, so no launch was late.
        begun = int(busy.start[0]) if whole is None or whole.first_work_ns == MISSING else whole.first_work_ns
        of = np.where(gaps.start_ns >= begun, of, MISSING)
        np.add.at(starved, of[of != MISSING], length(gaps.start_ns, gaps.end_ns)[of != MISSING])
        piece = of[account.gap]
        counts = (piece != MISSING) & np.isin(account.cause, CAPTURED)
        np.add.at(capture, piece[counts], length(account.start_ns, account.end_ns)[counts])
    return starved, capture


# With at most this many waiting launches, the queue may soon be empty.
SHALLOW = 3


class Depth(msgspec.Struct, frozen=True):
    """Queue depth statistics of one device, for the given time ranges."""

    device: int
    mean: float
    p95: int
    starved: float
    """Share of the time during which the queue is empty.

    ``shallow`` is the share during which the depth is 1 to 3. ``blocked`` is the share during which the depth is
    1,000 or more.
    """
    shallow: float
    blocked: float


def queue_depths(trace: TraceTable, windows: Ranges) -> list[Depth]:
    """Returns queue depth statistics for each device that has recorded launches."""
    every, chosen = launch_table(trace), windows
    device = trace.device[every.row]
    found = []
    for each in np.unique(device).tolist():
        # The number of waiting launches of unrecorded work is unknown.
        windows = subtract(chosen, unrecorded_work(trace, each))
        length = measure(windows)
        if not length:
            continue
        mine = device == each
        curve = sum_of_intervals(trace.start_ns[every.call[mine]], trace.start_ns[every.row[mine]])
        time = distinct_values(curve.time_ns, windows.start, windows.end)
        value = np.append(curve.value, curve.before)[np.searchsorted(curve.time_ns, time, side="right") - 1]
        weight = np.where(contains(windows, time), np.diff(time, append=time[-1:]), 0)
        depth = value.astype(np.int64)
        order = np.argsort(depth, kind="stable")
        reached = np.cumsum(weight[order])
        found.append(
            Depth(
                device=each,
                mean=int((depth * weight).sum()) / length,
                p95=int(depth[order][np.searchsorted(reached, -(-95 * length // 100))]),
                starved=int(weight[depth == 0].sum()) / length,
                shallow=int(weight[(depth > 0) & (depth <= SHALLOW)].sum()) / length,
                blocked=int(weight[depth >= QUEUE_FULL].sum()) / length,
            )
        )
    return found
