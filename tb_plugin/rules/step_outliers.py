"""Outlier steps."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.idle.causes import Cause
from tb_plugin.analysis.phrases import plural
from tb_plugin.rules import compilation, data_loading, driver_memory_calls, garbage_collection
from tb_plugin.rules._base import MIN_SHARE, Detection, Rule, Scene, percent
from tb_plugin.rules._slow_steps import FAR, OTHERS, Words, is_multi_modal, slow_steps_finding, step_lengths, usual_of
from tb_plugin.rules.slow_first_step import is_slow

BEYOND = 0.2
"""Minimum excess of a slow step over the median step, as a share of the median step."""

_ADVICE = {
    Cause.GARBAGE_COLLECTION: garbage_collection.RULE,
    Cause.COMPILATION: compilation.RULE,
    Cause.INPUT: data_loading.RULE,
    Cause.DRIVER_MEMORY: driver_memory_calls.RULE,
}
"""For some idle causes, the rule whose advice is shown if this cause has the largest difference."""


def _look(s: Scene) -> Detection | None:
    steps, every = s.steps, s.trace.steps
    if not every.recorded or len(steps.label) <= OTHERS or is_multi_modal(steps):
        return None
    dur = step_lengths(s)
    usual = usual_of(dur)
    limit = usual.median + max(FAR * usual.deviation, BEYOND * usual.median)
    slow, others = np.flatnonzero(dur > limit), np.flatnonzero(dur <= limit)
    if len(others) < OTHERS:
        return None
    usual = usual_of(dur[others])
    if len(slow) and slow[0] == 0 and steps.label[0] == every.label[0] and is_slow(dur):
        slow = slow[1:]  # the rule slow_first_step covers it
    if not len(slow) or (dur[slow] - usual.median).sum() < MIN_SHARE * dur.sum():
        return None
    words = Words(
        text=f"{{unusual_steps}} {plural(len(slow), 'step takes', 'steps take')} much longer than the median of "
        f"{{usual_step_ns}}: {'it' if len(slow) == 1 else 'the longest'} is {{step}} with {{unusual_ns}}.",
        why="One slow step delays all ranks. Upper bound: slow steps take as long as the other steps. Lower bound: slow "
        "steps exceed the other steps by up to twice the range of the other steps.",
        advice=_ADVICE,
    )
    return slow_steps_finding(s, RULE, words, dur, slow, others)


RULE = Rule(
    __name__,
    title="Outlier steps",
    look=_look,
    order=190,
    detects="A few steps take much longer than the other steps.",
    threshold=f"These steps exceed the median step by more than {FAR} median absolute deviations and by more than "
    f"{percent(BEYOND)}. Together, their excess is at least {percent(MIN_SHARE)} of the time of all steps.",
    saving="The excess of these steps, with bounds as in `slow_first_step`.",
    needs="At least three steps that are not slow.",
    notes="""
        The first step does not count if `slow_first_step` covers it. `slow_first_step` also defines `differs`. The
        difference may be mostly due to garbage collection, compilation, data loading or driver calls. Then the finding
        shows the advice of the rule about this cause.
    """,
)
