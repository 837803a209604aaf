"""Devices run work that was launched before the recording started."""

from __future__ import annotations

from tb_plugin.analysis.severity import severity_of
from tb_plugin.lib.intervals import measure
from tb_plugin.payloads import Link, Notice
from tb_plugin.rules._base import Rule, Scene, Seen
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._metrics import METRICS
from tb_plugin.rules._verdict import MIN_SHARE, earlier_work


def _look(s: Scene) -> Seen | None:
    time = measure(earlier_work(s.trace, s.steps))
    share = s.per_step(time) / s.step_ns if s.step_ns else 0.0
    if share < MIN_SHARE:
        return None
    whole = "{step_time_mean_ns} per step" if s.trace.steps.recorded else "the recorded {step_time_mean_ns}"
    notice = Notice(
        rule="started_late",
        severity=severity_of(share),
        text=f"For {{earlier_work_ns}} of {whole} the device runs kernels launched before the recording started. "
        "They are not in the trace.",
        todo=s.todo("recording_began_mid_flight"),
        figures=[
            METRICS.figure("earlier_work_ns", s.per_step(time)),
            METRICS.figure("step_time_mean_ns", s.step_ns),
            METRICS.figure("earlier_work_share", share),
        ],
        measure="earlier_work_share",
        threshold=MIN_SHARE,
        evidence=Link("timeline", {}, "Show in timeline"),
        why="Step times, idle time and utilization of this part are unknown, so other findings about it would be wrong.",
        confidence="high",
    )
    return Seen(notice, takes_ns=time)


RULE = Rule(
    "started_late", "Recording started late", _look, saves=False, needs_kernels=True, limits=(Limit.STARTED_LATE,)
)
