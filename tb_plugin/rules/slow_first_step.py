"""A slow first step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.rules._base import WORTH, Detection, Rule, Scene
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._slow_steps import FAR, OTHERS, Words, is_multi_modal, slow_steps_finding, step_lengths, usual_of

Int64 = npt.NDArray[np.int64]

FIRST = 1.5
"""Minimum duration of the first step, as a multiple of the median of the other steps."""
_WORDS = Words(
    text=(
        "The first recorded step takes {unusual_ns}, the others {usual_step_ns} (median). The "
        "difference is {excess_ratio} of all step time."
    ),
    why=(
        "This cost occurs once. It makes the mean step time of this recording too high. Upper bound: the "
        "first step takes as long as the others. Lower bound: it exceeds them by up to twice their range."
    ),
    advice={},
)
MIN_SHARE_ABOVE_OTHERS = 0.5
"""At least this share of the first step's excess must exceed the longest other step."""


def is_slow(dur: Int64) -> bool:
    """Returns whether the first duration is much longer than all others."""
    first, usual = int(dur[0]), usual_of(dur[1:])
    excess = first - usual.median
    far = first > FIRST * usual.median and excess > FAR * usual.deviation
    return far and first - int(dur[1:].max()) >= MIN_SHARE_ABOVE_OTHERS * excess and excess >= WORTH * dur.sum()


def _look(s: Scene) -> Detection | None:
    steps, every = s.steps, s.trace.steps
    if not every.recorded or len(steps.label) <= OTHERS or is_multi_modal(steps) or steps.label[0] != every.label[0]:
        return None
    dur = step_lengths(s)
    if not is_slow(dur):
        return None
    return slow_steps_finding(s, RULE, _WORDS, dur, np.array([0]), np.arange(1, len(dur)))


RULE = Rule(
    __name__,
    title="Slow first step",
    look=_look,
    order=180,
    detects="The first recorded step takes much longer than the others.",
    threshold=f"It takes more than {FIRST} times the median of the others. It exceeds the median by more than {FAR} median "
    "absolute deviations.",
    saving=(
        "The excess of the first step, spread over the selected steps. Lower bound: its time, minus "
        "the longest other step, minus twice the range of the other steps. Upper bound: its time, "
        "minus the shortest other step, plus twice that range, plus the gain in the next step."
    ),
    needs="The first recorded step and at least three others.",
    notes="""
        The excess is at least 1 % of the time of all steps. At least half of the excess is beyond the longest other
        step; otherwise other steps are slow too. If the CPU is busy for 90 % of the steps and no GPU is, CPU times are
        compared. In the total saving, this step counts with its excess plus the saving in other steps. If the other
        findings save more in this step, their saving counts instead.

        `differs` names the part of the step that grew most: kernels, copies, communication, or idle time by cause.
        `differs_row` names the Python line, operator or call responsible, if it explains at least a tenth of that
        part. The finding mentions compilation if it is at least half of the excess: `compilation` saves the same
        time.
    """,
    limits=(
        Limit.CPU,
        Limit.INITIALISATION,
    ),
)
