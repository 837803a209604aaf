"""A device that waits for launches: what two rules look at, one for the launches' sake and one for that of the batch."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.idle.causes import HOST, Cause
from tb_plugin.analysis.idle.host import occupied
from tb_plugin.analysis.metrics import STEPS, define
from tb_plugin.lib.groupby import sum_by
from tb_plugin.lib.intervals import Ranges, intersect, join, measure, measure_within, subtract, union
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import Figure
from tb_plugin.rules._base import Scene
from tb_plugin.rules._metrics import METRICS as OF_RULES

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

METRICS = OF_RULES.adding(
    define(
        STEPS,
        "ns",
        {
            "launching_ns": (
                "Launch idle",
                "Device idle time from operators, launch calls and usual launch latency, per step.",
            ),
            "launch_every_ns": (
                "Host time per launch",
                "Host time in operators and runtime calls divided by launches.",
            ),
            "kernel_median_ns": ("Median kernel", "Median kernel duration."),
        },
    ),
    define(STEPS, "number", {"step_launches": ("Launches", "Launches per step.")}),
    define(STEPS, "ratio", {"launching_ratio": ("Launch idle", "Launch idle divided by mean step time.")}),
)

STARVED = 0.01
"""Share of the step: of less too little would be saved to be told. A training whose device is fed has none."""
LONG_NS = 1_000_000
"""Who waits longer than that does not wait for a launch: an operator loads code, or computes on the host."""
AMONG = 1 / 3
"""Share of all idle time but that of the device itself: of less, other causes are to be mended first."""
FEW = 20
"""With fewer launches in a step there is no rhythm of launches that a device could wait for."""
LAUNCHING = (Cause.LAUNCH, Cause.DISPATCH, Cause.LAUNCH_LATENCY)
_ON_DEVICE = (Cause.KERNEL_LATENCY, Cause.DEPENDENCY)
_OTHERS = tuple(cause for cause in HOST if cause < Cause.GRAPH)
"""What the host may be in that other rules speak about."""


class Starving(msgspec.Struct, frozen=True, eq=False):
    """A device that waits for launches, and the launches of the steps."""

    call: Int64
    """The launches, each once."""
    step: Int64
    """The step of each."""
    operators: Mapping[int, Ranges]
    """When each thread that launches is in operators or calls of the runtime."""
    others: Ranges
    """When such a thread is in what other rules speak about."""
    figures: tuple[Figure, ...]


def launches_of(s: Scene) -> Int64:
    """Returns the launches of the steps' device work, each once."""
    from tb_plugin.analysis.launch_phases import launch_phases

    launches = launch_phases(s.trace)
    return np.unique(launches.call[s.rows[launches.row] & (launches.call != MISSING)])


def waiting(s: Scene) -> Float64:
    """Returns for how long a device waits for launches in each step, a mean over the devices; 0 without devices."""
    if (s.idle_for(*LAUNCHING) < STARVED * s.step_ns).all():
        return s.idle_for(*LAUNCHING)
    found = [np.zeros(len(s.steps.label), np.int64)]
    from tb_plugin.analysis.idle.account import idle_account

    for device in device_busy(s.trace):
        account = idle_account(s.trace, device)
        mine = np.isin(account.cause, LAUNCHING)
        time = sum_by(account.gap[mine], (account.end_ns - account.start_ns)[mine], len(account.gaps.next))
        mine &= time[account.gap] <= LONG_NS
        pieces = union(account.start_ns[mine], account.end_ns[mine])
        found.append(measure_within(pieces, s.steps.start_ns, s.steps.end_ns))
    mean: Float64 = np.sum(found, axis=0) / max(len(found) - 1, 1)
    return mean


def starving(s: Scene) -> Starving | None:
    """Returns what is seen where devices wait for launches of kernels that take less time than their launches."""
    by_step = waiting(s)
    launching = float(by_step.mean()) if len(by_step) else 0.0
    # What is slow in a step or two is no matter of launches.
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
    doing = {thread: occupied(trace, thread) for thread in s.threads}
    operators = {thread: intersect(causes[Cause.DISPATCH], s.host) for thread, causes in doing.items()}
    others = join(*(causes[cause] for causes in doing.values() for cause in _OTHERS))
    every = measure(subtract(join(*operators.values()), others)) / len(call)
    median = int(kernels[(len(kernels) - 1) // 2])
    if median > every:
        return None
    values = {
        "launching_ns": launching,
        "launching_ratio": launching / s.step_ns,
        "launch_every_ns": every,
        "kernel_median_ns": median,
        "step_launches": s.per_step(len(call)),
        "step_time_mean_ns": s.step_ns,
    }
    figures = tuple(METRICS.figure(key, value) for key, value in values.items())
    step = np.searchsorted(s.steps.host_start_ns, trace.start_ns[call], side="right") - 1
    return Starving(call, step, operators, others, figures)
