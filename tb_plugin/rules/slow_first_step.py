"""A slow first step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.rules._base import WORTH, Detection, Rule, Scene
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._slow_steps import FAR, OTHERS, Words, detection, is_multi_modal, lengths, usual_of

Int64 = npt.NDArray[np.int64]

FIRST = 1.5
"""Minimum duration relative to the median of the other steps."""
_WORDS = Words(
    text=(
        "The first recorded step takes {unusual_ns}, the others {usual_step_ns}. Its excess is "
        "{excess_ratio} of all step time."
    ),
    why=(
        "This cost occurs once. It makes the mean step time of this recording too high. Upper bound: the "
        "first step takes as long as the others. Lower bound: it exceeds them by up to twice their range."
    ),
    advice={},
)
ALONE = 0.5
"""Smallest share of the excess by which the first step exceeds every other step."""


def is_slow(dur: Int64) -> bool:
    """Returns whether the first duration is much longer than all others."""
    first, usual = int(dur[0]), usual_of(dur[1:])
    excess = first - usual.median
    far = first > FIRST * usual.median and excess > FAR * usual.deviation
    return far and first - int(dur[1:].max()) >= ALONE * excess and excess >= WORTH * dur.sum()


def _look(s: Scene) -> Detection | None:
    steps, every = s.steps, s.trace.steps
    if not every.recorded or len(steps.label) <= OTHERS or is_multi_modal(steps) or steps.label[0] != every.label[0]:
        return None
    dur = lengths(s)
    if not is_slow(dur):
        return None
    return detection(s, RULE, _WORDS, dur, np.array([0]), np.arange(1, len(dur)))


RULE = Rule(
    __name__,
    title="Slow first step",
    look=_look,
    order=180,
    detects="The first recorded step takes much longer than the others.",
    threshold=f"{FIRST} times the median of the others, and {FAR} median absolute deviations beyond it.",
    saving=(
        "The excess of the first step, spread over the selected steps. At least its time beyond the longest "
        "of the others plus twice their range. At most its time beyond the shortest less twice the range, "
        "with what the next step gains."
    ),
    needs="The first recorded step and three others or more.",
    notes="""
        The excess is 1 % of the time of all steps or more. At least half of it lies beyond the longest of the
        other steps: else something makes steps slow now and then. If the CPU is busy for 90 % of the steps and
        no GPU is as busy, the CPU time of steps is compared. In this step, all findings together save its
        excess and the usual saving, or what the other findings gain there if that is more.

        `differs` names the part of the step that grew most: kernels, copies, communication, or idle time by
        cause. `differs_row` names the line of Python, the operator or the call behind it, if it explains a
        tenth of that part or more. If compilation is half of the excess or more, the finding says so:
        `compilation` saves the same time.
    """,
    limits=(
        Limit.CPU,
        Limit.INITIALISATION,
    ),
)
