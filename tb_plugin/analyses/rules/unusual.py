"""Steps that take longer than the others: by how much, and what differs in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.busy import device_busy
from tb_plugin.analyses.idle.account import idle_account
from tb_plugin.analyses.idle.metrics import TITLES
from tb_plugin.analyses.metrics import STEP, STEPS, define
from tb_plugin.analyses.rules.base import Scene
from tb_plugin.analyses.rules.metrics import METRICS as OF_RULES
from tb_plugin.analyses.what_if import Change
from tb_plugin.payloads import Figure
from tb_plugin.trace.schema import ON_DEVICE, of_kind
from tb_plugin.trace.steps import STEP_NAME

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

METRICS = OF_RULES.adding(
    define(
        STEP,
        "ns",
        {
            "unusual_ns": ("Slow step", "Duration of the slow step, of several the longest."),
            "differs_ns": (
                "Larger by",
                "By how much this part of the slow step (of several the longest) is larger than in the median of the others.",
            ),
        },
    ),
    define(
        STEPS,
        "ns",
        {
            "usual_step_ns": ("Usual step", "Median duration of the other steps (of an even number the lower one)."),
            "excess_ns": ("Excess", "What the slow steps take beyond the usual step, in all."),
        },
    ),
    define(STEPS, "ratio", {"excess_ratio": ("Excess", "Share of the time of all steps that the excess takes.")}),
    define(STEPS, "count", {"unusual_steps": ("Slow steps", "Steps that take far longer than the others.")}),
    define("", "text", {"differs": ("What differs", "The part of a step that is larger than in the others by most.")}),
)

OTHERS = 3
"""From so many other steps on their median says what is usual."""
FAR = 8
"""So many median absolute deviations beyond the median a step is unlike the others, whatever they differ by."""
WORTH = 0.01
"""Share of the time of all steps that the excess has to take."""
HOST_BOUND = 0.9
"""Share of a step that a host takes which has no time to spare."""
_BUSY = {
    "kernel": "Kernels",
    "memcpy": "Copies",
    "memset": "Memory sets",
    "communication": "Communication",
}
_HOST = {
    "runtime": "Runtime calls",
    "dataloader": "Waiting for input",
    "cpu": "Operators",
    "other": "Neither operators nor calls",
}


def lengths(s: Scene) -> Int64:
    """Returns how long each step takes: where the host is busy all the time and no device is, the host's own time.

    The first step's end is then later than that by what the device still has to do, which in the other steps is hidden.
    Before a device that is busy all the time the host runs ahead, and later waits in its launches: its time says nothing.
    """
    steps = s.steps
    dur, host = steps.end_ns - steps.start_ns, steps.host_end_ns - steps.host_start_ns
    busy = any((ratio.utilization or 0.0) >= HOST_BOUND for ratio in s.ratios.values())
    return host if not busy and np.median(host[1:]) >= HOST_BOUND * np.median(dur[1:]) else dur


@dataclass(frozen=True, eq=False)
class Usual:
    """What the usual steps take: their median, how far from it they are, and the bounds of what one would take."""

    median: int
    deviation: int
    low: int
    high: int


def usual_of(dur: Int64) -> Usual:
    """Returns what steps of these durations usually take: few as they are, one more may be twice their range beyond them."""
    ordered = np.sort(dur)
    median = int(ordered[(len(dur) - 1) // 2])
    deviation = int(np.sort(np.abs(dur - median))[(len(dur) - 1) // 2])
    least, most = int(ordered[0]), int(ordered[-1])
    return Usual(median, deviation, max(3 * least - 2 * most, 0), 3 * most - 2 * least)


def changes(dur: Int64, slow: Int64, usual: Usual) -> tuple[Change, Change]:
    """Returns what goes where the slow steps take as long as the others: at least, at most.

    At most the step after a slow one is shorter as well: the host was ahead of the device no more when it began.
    """
    after = np.setdiff1d(slow + 1, np.append(slow, len(dur)))
    late = np.maximum(dur[after] - usual.median, 0)
    least, most = np.maximum(dur[slow] - usual.high, 0), dur[slow] - usual.low
    return Change(step=slow, step_ns=least), Change(step=np.append(slow, after), step_ns=np.append(most, late))


def figures(s: Scene, dur: Int64, slow: Int64, others: Int64, usual: Usual) -> dict[str, Figure]:
    """Returns the figures of slow steps; of what differs those of the longest."""
    worst = int(slow[np.argmax(dur[slow])])
    excess = int((dur[slow] - usual.median).sum())
    values: dict[str, int | float | str] = {
        "unusual_ns": int(dur[worst]),
        "usual_step_ns": usual.median,
        "excess_ns": excess,
        "excess_ratio": excess / int(dur.sum()),
        "unusual_steps": len(slow),
        "step": s.steps.label[worst],
    }
    parts = {name: int(time[worst]) - int(np.median(time[others])) for name, time in _parts(s).items()}
    name = max(sorted(parts), key=lambda each: parts[each])
    values |= {"differs": name, "differs_ns": parts[name]}
    return {key: METRICS.figure(key, value) for key, value in values.items()}


def _parts(s: Scene) -> Mapping[str, Int64]:
    """What steps consist of, without a gap: of one device its idle time by cause, else what goes on anywhere."""
    shares, devices = s.breakdown.parts, list(device_busy(s.trace))
    busy = {title: shares[name] for name, title in _BUSY.items()}
    if len(devices) != 1:
        return busy | {title: shares[name] for name, title in _HOST.items()}
    idle = idle_account(s.trace, devices[0]).by_cause(s.steps.start_ns, s.steps.end_ns)
    return busy | {TITLES[cause][0]: time for cause, time in idle.items()}


def step_rows(s: Scene, slow: Int64) -> Int64:
    """Returns the annotations of these steps."""
    trace = s.trace
    named = trace.strings.where(lambda text: STEP_NAME.match(text) is not None)[trace.name]
    rows = np.flatnonzero(named & ~of_kind(trace.kind, *ON_DEVICE))
    return s.by_length(rows[np.isin(trace.start_ns[rows], s.steps.host_start_ns[slow])])
