"""A slow first step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.rules._base import WORTH, Detection, Rule, Scene
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._slow_steps import FAR, OTHERS, Words, is_multi_modal, slow_steps_finding, step_lengths, usual_of

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
MIN_SHARE_ABOVE_OTHERS = 0.5
"""Minimum share of the excess by which the first step exceeds every other step."""


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
        "The excess of the first step, spread over the selected steps. Lower bound: its time beyond the longest "
        "other step plus twice their range. Upper bound: its time beyond the shortest other step minus twice their "
        "range, plus the gain in the next step."
    ),
    needs="The first recorded step and at least three others.",
    notes="""
        The excess is at least 1 % of the time of all steps. At least half of it exceeds the longest other step;
        otherwise other steps are slow too. If the CPU is busy for 90 % of the steps and no GPU is, CPU times are
        compared. In this step, the combined saving is its excess plus the usual saving. If the other findings save
        more there, their saving counts.

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
