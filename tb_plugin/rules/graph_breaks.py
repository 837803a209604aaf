"""Graph breaks in compiled code."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.compiled.regions import has_regions, regions_of
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.intervals import intersect, measure, subtract
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene, optional

METRICS = COMMON.in_steps(
    ns={"breaking_ns": ("Guards and wrappers", "Time of guard checks and wrappers in calls after a graph break.")},
    count={
        "breaks": ("Graph breaks", "Pairs of interrupted and resumed functions."),
        "breaking_calls": ("Calls after breaks", "Calls from one compiled region to another."),
    },
    code={"break_line": ("First at", "Last line before the most frequent break.")},
)


def _look(s: Scene) -> Detection | None:
    if not has_regions(s.trace):
        return None
    from tb_plugin.analysis.compiled.graph_breaks import breaks_of, cost_ranges, place_of

    broken, regions = breaks_of(s.trace), regions_of(s.trace)
    mine = np.flatnonzero((s.rows & s.on_threads)[regions.row[broken.call]])
    if not len(mine):
        return None
    call = broken.call[mine]
    cost = subtract(intersect(cost_ranges(s.trace, call), s.host), s.profiler_waits)
    breaks, of, count = np.unique(broken.function[mine], return_inverse=True, return_counts=True)
    most = call[of.ravel() == int(count.argmax())]
    line = place_of(s.trace, int(regions.code[most[0]]))
    notice = s.notice(
        RULE,
        severity="low",
        text=f"Compiled code has {{breaks}} {plural(len(breaks), 'graph break')}, reached {{breaking_calls}} "
        f"{plural(len(mine), 'time')} in total"
        + (", most often at {break_line}" if line else "")
        + ". Guards and wrappers after the breaks take {breaking_ns}.",
        figures=METRICS.measured(
            breaks=len(breaks), breaking_calls=len(mine), breaking_ns=measure(cost), **optional(line, break_line=line)
        ),
        evidence=Link("compiled", {"group": "graph_breaks"}, "Show the breaks"),
        why="The code after a break is compiled separately: guards are checked again, and nothing is fused across the "
        "break. The bounds include only guard checks and wrappers. The saving from fusion is unknown.",
        confidence="high",
    )
    return Detection(notice, Bounds.exact(Change(cost)), s.by_length(regions.row[call]))


RULE = Rule(
    __name__,
    title="Graph breaks",
    look=_look,
    order=170,
    detects="Compiled code stops at a graph break and continues in another compiled region.",
    threshold="One graph break on a launching thread.",
    saving="The time of guards and wrappers in calls after a break. The trace does not show what fusion across a break "
    "would save.",
    needs="Regions of [compiled code](../concepts/attribution.md#compiled-code).",
    notes="""
        If Python stacks are recorded, the finding shows the Python line of the break.
    """,
    has_data=has_regions,
    stays_without_saving=True,
    limits=(Limit.CPU, Limit.CPU_ONLY, Limit.COMPILATION),
)
