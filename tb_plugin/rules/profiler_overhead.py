"""Profiler overhead that distorts the recording."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import rows_in
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.intervals import EMPTY, Ranges, intersect, join, measure, measure_within
from tb_plugin.model.trace.schema import ON_DEVICE, EventKind, of_kind
from tb_plugin.payloads import Figure, Link
from tb_plugin.rules._base import COMMON, NO_SAVING, Bounds, Detection, Limit, Rule, Scene, percent

METRICS = COMMON.in_steps(
    ns={"overhead_ns": ("Profiler", "Recorded profiler overhead per step.")},
    ratio={
        "waiting_host_ratio": (
            "Host-bound idle",
            "Idle time due to Python, operators and launch calls, divided by step time.",
        )
    },
    number={
        "python_rate": (
            "Python calls per millisecond",
            "Recorded Python calls of launching threads, divided by host step time.",
        )
    },
)

OVERHEAD_SHARE = 0.01
"""Minimum share of profiler overhead in the steps. Smaller shares are within step-to-step noise."""
CALLS_A_MS = 100
"""Minimum number of recorded Python calls per millisecond. Recording a call takes about 1 us."""
WAITING = 0.1
"""Minimum share of the step during which the device waits for the host. Below this share, a slow host hardly matters."""
_HOST = (Cause.PYTHON, Cause.DISPATCH, Cause.LAUNCH)


def _look(s: Scene) -> Detection | None:
    rows = rows_in(s.trace, Cause.PROFILER)
    own = s.covered_with_profiler(rows) if len(rows) else EMPTY
    share = measure(own) / max(measure(s.host), 1)
    waiting = float(s.idle_for(*_HOST).mean()) / s.step_ns if s.step_ns else 0.0
    rate = _calls(s) / (measure(s.host) / 1e6) if waiting >= WAITING else 0.0
    if share < OVERHEAD_SHARE and rate < CALLS_A_MS:
        return None
    figures: list[Figure] = []
    text, todo = [], []
    if share >= OVERHEAD_SHARE:
        text.append("The profiler itself takes {overhead_ns} of {step_time_mean_ns} per step.")
        todo.append(s.todo(RULE))
        figures += METRICS.measured(overhead_ns=s.per_step(measure(own)), step_time_mean_ns=s.step_ns)
    if rate >= CALLS_A_MS:
        text.append(
            "The profiler recorded {python_rate} Python calls per millisecond, and devices wait for the host "
            "during {waiting_host_ratio} of the time. Recording without stacks would shorten this wait by an "
            "unknown amount."
        )
        todo.append(s.todo(RULE, "stacks"))
        figures += METRICS.measured(python_rate=rate, waiting_host_ratio=waiting)
    notice = s.notice(
        RULE,
        severity="low",
        text=" ".join(text),
        todo=" ".join(todo),
        figures=figures,
        evidence=Link("idle", {"where": "cause:Profiler"}, "Show the wait") if len(own) else None,
        why="Code that is slow only while recorded needs no fix. The profiler makes other findings look larger than they "
        "are. Lower bound: profiler work on launching threads and waits for the profiler. Upper bound: all recorded "
        "profiler work.",
    )
    if share < OVERHEAD_SHARE:
        return Detection(notice, NO_SAVING)
    least = join(_holding(s, own), intersect(s.profiler_waits, own))
    there = rows[measure_within(s.host, s.trace.start_ns[rows], s.trace.ends(rows)) > 0]
    return Detection(notice, Bounds(Change(least), Change(own)), s.by_length(there), measure(own))


def _calls(s: Scene) -> int:
    return int((of_kind(s.trace.kind, EventKind.PYTHON, EventKind.MODULE) & s.on_threads & s.rows).sum())


def _holding(s: Scene, own: Ranges) -> Ranges:
    """Returns the ranges in ``own`` during which no launching thread starts an event."""
    begun = s.trace.start_ns[s.on_threads & ~of_kind(s.trace.kind, *ON_DEVICE, EventKind.OVERHEAD)]
    still = np.searchsorted(begun, own.start, side="right") == np.searchsorted(begun, own.end)
    return Ranges(own.start[still], own.end[still])


RULE = Rule(
    __name__,
    title="Profiler overhead",
    look=_look,
    order=200,
    detects="The profiler itself slows down the recorded program.",
    threshold=f"Profiler work takes at least {percent(OVERHEAD_SHARE)} of step time, or at least {CALLS_A_MS} Python calls "
    "per millisecond are recorded (`stacks`).",
    saving="Upper bound: all recorded time of the profiler. Lower bound: the part during which launching threads start "
    "nothing or wait for the profiler. There are no bounds for the finding about Python calls, because the trace does not "
    "show the cost of stacks.",
    notes="""
        Python calls count only if the GPU waits for the CPU for at least 10 % of the step. Recording a call takes
        about 1 us.
    """,
    cases=("", "stacks"),
    limits=(Limit.PROFILER,),
)
