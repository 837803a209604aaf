"""A few steps take much longer than the others."""

from __future__ import annotations

import numpy as np

from tb_plugin.analyses.idle.causes import Cause
from tb_plugin.analyses.idle.metrics import TITLES
from tb_plugin.analyses.rules.base import Rule, Scene, Seen
from tb_plugin.analyses.rules.slow_first_step import is_slow
from tb_plugin.analyses.rules.unusual import FAR, OTHERS, WORTH, changes, figures, lengths, step_rows, usual_of
from tb_plugin.analyses.wording import noun, references_of
from tb_plugin.payloads import Link, Notice

BEYOND = 0.2
"""Share of the usual step beyond which a step is slow, however alike the others are."""

_OF_CAUSE = {TITLES[cause][0]: rule for cause, rule in ((Cause.GARBAGE_COLLECTION, "garbage_collection"),
                                                       (Cause.COMPILATION, "compilation"),
                                                       (Cause.INPUT, "data_loading"),
                                                       (Cause.DRIVER_MEMORY, "driver_memory_calls"))}  # fmt: skip
"""Whose advice fits where a step differs by one cause of idle time."""


def _look(s: Scene) -> Seen | None:
    steps, every = s.steps, s.trace.steps
    if not every.recorded or len(steps.label) <= OTHERS:
        return None
    dur = lengths(s)
    usual = usual_of(dur)
    limit = usual.median + max(FAR * usual.deviation, BEYOND * usual.median)
    slow, others = np.flatnonzero(dur > limit), np.flatnonzero(dur <= limit)
    if len(others) < OTHERS:
        return None
    usual = usual_of(dur[others])
    if len(slow) and slow[0] == 0 and steps.label[0] == every.label[0] and is_slow(dur):
        slow = slow[1:]  # the rule of the first step speaks of it
    if not len(slow) or (dur[slow] - usual.median).sum() < WORTH * dur.sum():
        return None
    told = figures(s, dur, slow, others, usual)
    notice = Notice(
        rule="step_outliers",
        severity="medium",
        text=f"{{unusual_steps}} {noun(len(slow), 'step takes', 'steps take')} far longer than the usual {{usual_step_ns}}: "
        f"{'it' if len(slow) == 1 else 'the longest'} is {{step}} with {{unusual_ns}}. Most of its difference is {{differs}} "
        "({differs_ns}).",
        todo=s.trace.recorder.todo(_OF_CAUSE.get(str(told["differs"].value), "step_outliers"))
        or s.trace.recorder.todo("step_outliers"),
        figures=list(told.values()),
        measure="excess_ratio",
        threshold=WORTH,
        evidence=Link("idle", {}, "Show idle time of the steps"),
        references=references_of(s.trace.recorder, "step_outliers"),
        why="One slow step holds up all ranks. The bounds let the slow steps take as long as the others, or be up to "
        "twice their range beyond them.",
        confidence="high",
    )
    least, most = changes(dur, slow, usual)
    return Seen(notice, least, most, step_rows(s, slow))


RULE = Rule("step_outliers", "Steps that take longer", _look, is_symptom=True)
