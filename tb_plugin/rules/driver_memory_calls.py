"""Driver memory calls within steps."""

from __future__ import annotations

from msgspec.structs import replace

from tb_plugin.analysis.driver_calls import driver_notice, usual_calls
from tb_plugin.analysis.metrics import LINE
from tb_plugin.analysis.simulate import Change
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene

METRICS = COMMON.in_steps(code={"driver_line": ("Python line", LINE.format("driver memory call"))})


def _look(s: Scene) -> Detection | None:
    """Reports the same problem as the memory view, but does not need allocator events."""
    there = len(s.trace.memory.time_ns) > 0
    link = Link("memory", {}, "Show memory") if there else Link("timeline", {}, "Show in timeline")
    notice = driver_notice(s.driver, s.trace.recorder, link)
    if notice is None:
        return None
    rows = s.by_length(usual_calls(s.trace, s.host))
    why = "Each of these calls blocks the host. A call that releases memory also waits until the device is idle."
    line = s.line(rows)
    if line:
        figures = [*notice.figures, METRICS.figure("driver_line", line)]
        notice = replace(
            notice, text=f"{notice.text} Most of the time of these calls is spent at {{driver_line}}.", figures=figures
        )
    return Detection(
        replace(notice, why=why, confidence="high", threshold=None), Bounds.exact(Change(s.covered(rows))), rows
    )


RULE = Rule(
    __name__,
    title="Memory allocation calls to the driver",
    look=_look,
    order=90,
    detects="The allocator calls the driver for memory within steps.",
    threshold="One call that is not part of driver initialization.",
    saving="The time of these calls.",
    notes="""
        Calls during driver initialization do not count. A call that releases memory and waits for the GPU always
        counts. All times and counts are sums over all steps.
    """,
    cases=("", "segments", "no_steps"),
    limits=(Limit.CPU,),
)
