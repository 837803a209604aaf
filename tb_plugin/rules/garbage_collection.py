"""Python collects garbage inside of steps."""

from __future__ import annotations

from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.idle.host import rows_in
from tb_plugin.analysis.metrics import STEPS, define
from tb_plugin.analysis.phrases import noun, references_of
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.intervals import measure
from tb_plugin.payloads import Link, Notice
from tb_plugin.rules._base import Rule, Scene, Seen
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._metrics import METRICS as OF_RULES

METRICS = OF_RULES.adding(
    define(
        STEPS,
        "ns",
        {
            "collecting_ns": ("Garbage collection", "Sum of collection pauses in steps."),
            "collecting_longest_ns": ("Longest pause", "Longest collection pause in steps."),
        },
    ),
    define(STEPS, "count", {"collections": ("Pauses", "Collection pauses in steps.")}),
)


def _look(s: Scene) -> Seen | None:
    found = rows_in(s.trace, Cause.GARBAGE_COLLECTION)
    if not len(found):
        return None
    pauses = s.covered(found)  # a call that collects and the collection inside of it are one
    if not len(pauses):
        return None
    figures = [
        METRICS.figure("collections", len(pauses)),
        METRICS.figure("collecting_ns", measure(pauses)),
        METRICS.figure("collecting_longest_ns", int((pauses.end - pauses.start).max())),
    ]
    notice = Notice(
        rule="garbage_collection",
        severity="medium",
        text=f"Python stopped {{collections}} {noun(len(pauses), 'time', 'times')} to collect garbage, {{collecting_ns}} in "
        "all, {collecting_longest_ns} at most.",
        todo=s.trace.recorder.todo("garbage_collection"),
        figures=figures,
        evidence=Link("idle", {"where": "cause:Garbage collection"}, "Show what waits"),
        references=references_of(s.trace.recorder, "garbage_collection"),
        why="Collections begin when so many objects were made, not when it suits: all threads of Python stand still until "
        "one ends, and so does whoever waits for this rank. The bounds are without any collection in these steps.",
        confidence="high",
    )
    return Seen(notice, Change(pauses), events=s.by_length(found[s.rows[found]]))


RULE = Rule("garbage_collection", "Garbage collection", _look, limits=(Limit.CPU, Limit.CPU_ONLY))
