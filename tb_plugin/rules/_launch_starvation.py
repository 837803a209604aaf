"""Devices that wait for launches, for two rules."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.idle.causes import HOST, Cause
from tb_plugin.analysis.idle.host import delaying_ranges
from tb_plugin.lib.arrays import Float64, Int64
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import Ranges, intersect, join, measure, measure_within, subtract, union
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Figure
from tb_plugin.rules._base import COMMON, Scene

METRICS = COMMON.in_steps(
    ns={
        "launching_ns": ("Launch idle", "Idle time due to operators, launch calls and launch latency, per step."),
        "launch_every_ns": ("Host time per launch", "Host time in operators and runtime calls, divided by launches."),
        "kernel_median_ns": ("Median kernel", "Median kernel duration."),
    },
    number={"step_launches": ("Launches", "Launches per step.")},
    ratio={"launching_ratio": ("Launch idle", "Launch idle time divided by mean step time.")},
)

STARVED = 0.01
"""Minimum share of the step during which a device waits for launches."""
LONG_NS = 1_000_000
"""Maximum length of an idle period that is attributed to launches. In longer ones, operators load code or compute."""
AMONG = 1 / 3
"""Minimum share of idle time caused by launches. Idle time caused by the device itself is excluded from the total."""
FEW = 20
"""Minimum number of launches per step."""
LAUNCHING = (Cause.LAUNCH, Cause.DISPATCH, Cause.LAUNCH_LATENCY)
_ON_DEVICE = (Cause.KERNEL_LATENCY, Cause.DEPENDENCY)
_OTHERS = tuple(cause for cause in HOST if cause < Cause.GRAPH)
"""Idle causes on the host that other rules cover."""


class Starving(msgspec.Struct, frozen=True, eq=False):
    """Launches in the steps for which a device waits."""

    call: Int64
    """Rows of the launch calls; each row occurs once."""
    step: Int64
    operators: Mapping[int, Ranges]
    """Time ranges in which each launching thread runs operators or runtime calls, by thread."""
    others: Ranges
    """Time ranges in which a launching thread does work that other rules cover."""
    idle_share: float
    """Launch idle time divided by step time."""
    figures: list[Figure]


def launches_of(s: Scene) -> Int64:
    """Returns the rows of the calls that launch the steps' device work; each row occurs once."""
    from tb_plugin.analysis.launches.phases import launch_phases

    launches = launch_phases(s.trace)
    return np.unique(launches.call[s.rows[launches.row] & (launches.call != MISSING)])


def launch_wait_ns(s: Scene) -> Float64:
    """Returns the device idle time in each step caused by launches: the mean over all devices, 0 if there are none."""
    if (s.idle_for(*LAUNCHING) < STARVED * s.step_ns).all():
        return s.idle_for(*LAUNCHING)
    found = [np.zeros(len(s.steps.label), np.int64)]
    for device in device_busy(s.trace):
        account = s.idle_account(device)
        mine = np.isin(account.cause, LAUNCHING)
        time = sum_by(account.gap[mine], (account.end_ns - account.start_ns)[mine], len(account.gaps.next))
        mine &= time[account.gap] <= LONG_NS
        pieces = union(account.start_ns[mine], account.end_ns[mine])
        found.append(measure_within(pieces, s.steps.start_ns, s.steps.end_ns))
    mean: Float64 = np.sum(found, axis=0) / max(len(found) - 1, 1)
    return mean


def starvation_finding(s: Scene) -> Starving | None:
    """Returns the launches for which a device waits. Returns None unless a launch takes longer than the median kernel."""
    by_step = launch_wait_ns(s)
    launching = float(by_step.mean()) if len(by_step) else 0.0
    # Idle time in a step or two is not caused by launches in general.
    if not s.step_ns or min(launching, float(np.median(by_step))) < STARVED * s.step_ns:
        return None
    host = s.idle_for(*(cause for cause in Cause if cause not in _ON_DEVICE))
    if launching < AMONG * float(host.mean()):
        return None
    trace = s.trace
    call = launches_of(s)
    kernels = np.sort(trace.dur_ns[s.kernels])
    if len(call) < FEW * len(s.steps.label) or not len(kernels):
        return None
    doing = {thread: delaying_ranges(trace, thread) for thread in s.threads}
    operators = {thread: intersect(causes[Cause.DISPATCH], s.host) for thread, causes in doing.items()}
    others = join(*(causes[cause] for causes in doing.values() for cause in _OTHERS))
    every = measure(subtract(join(*operators.values()), others)) / len(call)
    median = int(kernels[(len(kernels) - 1) // 2])
    if median > every:
        return None
    share = launching / s.step_ns
    figures = METRICS.measured(
        launching_ns=launching,
        launching_ratio=share,
        launch_every_ns=every,
        kernel_median_ns=median,
        step_launches=s.per_step(len(call)),
        step_time_mean_ns=s.step_ns,
    )
    step = np.searchsorted(s.steps.host_start_ns, trace.start_ns[call], side="right") - 1
    return Starving(call, step, operators, others, share, figures)
