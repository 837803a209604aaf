"""Device work launched before the recording started."""

from __future__ import annotations

from tb_plugin.analysis.severity import severity_of
from tb_plugin.lib.intervals import measure
from tb_plugin.rules._base import COMMON as METRICS
from tb_plugin.rules._base import NO_SAVING, Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._verdict import MIN_SHARE, earlier_work


def _look(s: Scene) -> Detection | None:
    time = measure(earlier_work(s.trace, s.steps))
    share = s.per_step(time) / s.step_ns if s.step_ns else 0.0
    if share < MIN_SHARE:
        return None
    notice = s.notice(
        RULE,
        severity=severity_of(share),
        text=f"For {{earlier_work_ns}} of {s.step_words} the device runs kernels launched before the recording started. "
        "These kernels are not in the trace.",
        figures=METRICS.measured(
            earlier_work_ns=s.per_step(time), step_time_mean_ns=s.step_ns, earlier_work_share=share
        ),
        measure="earlier_work_share",
        threshold=MIN_SHARE,
        why="Step times, idle time and utilization are unknown while these kernels run, so other findings about these would "
        "be wrong.",
        confidence="high",
    )
    return Detection(notice, NO_SAVING, takes_ns=time)


RULE = Rule(
    __name__,
    title="Recording started late",
    look=_look,
    order=480,
    detects="The GPU runs work that was launched before the recording started.",
    threshold=f"Such work takes at least {percent(MIN_SHARE)} of step time.",
    saving="None: these kernels are not in the trace.",
    advice="recording_began_mid_flight",
    needs_kernels=True,
    limits=(Limit.STARTED_LATE,),
)
