"""Python garbage collection within steps."""

from __future__ import annotations

from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import rows_in
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.intervals import measure
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, Bounds, Detection, Limit, Rule, Scene

METRICS = COMMON.in_steps(
    ns={
        "collecting_ns": ("Garbage collection", "Sum of garbage collection pauses during steps."),
        "collecting_longest_ns": ("Longest pause", "Longest garbage collection pause during steps."),
    },
    count={"collections": ("Pauses", "Garbage collection pauses during steps.")},
)


def _look(s: Scene) -> Detection | None:
    found = rows_in(s.trace, Cause.GARBAGE_COLLECTION)
    if not len(found):
        return None
    pauses = s.covered(found)  # a call and the collection inside it are one pause
    if not len(pauses):
        return None
    times = "once" if len(pauses) == 1 else "{collections} times"
    notice = s.notice(
        RULE,
        text=f"Python garbage collection ran {times} for {{collecting_ns}} "
        "in total. The longest pause took {collecting_longest_ns}.",
        figures=METRICS.measured(
            collections=len(pauses),
            collecting_ns=measure(pauses),
            collecting_longest_ns=int((pauses.end - pauses.start).max()),
        ),
        evidence=Link("idle", {"where": "cause:Garbage collection"}, "Show the wait"),
        why="A collection starts after a certain number of allocations, at any point of the step. A collection stops all "
        "Python threads, and other ranks wait. The bounds assume no collection in these steps.",
        confidence="high",
    )
    return Detection(notice, Bounds.exact(Change(pauses)), s.by_length(found[s.rows[found]]))


RULE = Rule(
    __name__,
    title="Garbage collection",
    look=_look,
    order=140,
    detects="Python garbage collection runs within steps.",
    threshold="One garbage collection within a step.",
    saving="The time of all collections within steps.",
    needs="Recorded garbage collections.",
    limits=(Limit.CPU, Limit.CPU_ONLY),
)
