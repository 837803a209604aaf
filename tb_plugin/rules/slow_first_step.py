"""A slow first step."""

from __future__ import annotations

import numpy as np

from tb_plugin.lib.arrays import Int64
from tb_plugin.rules._base import MIN_SHARE, Detection, Limit, Rule, Scene
from tb_plugin.rules._slow_steps import FAR, OTHERS, Words, is_multi_modal, slow_steps_finding, step_lengths, usual_of

FIRST = 1.5
"""Minimum duration of the first step, as a multiple of the median of the other steps."""
_WORDS = Words(
    text="The first recorded step takes {unusual_ns}; the other steps take {usual_step_ns} (median). The difference is "
    "{excess_ratio} of all step time.",
    why="A slow first step occurs once, but makes the mean step time of this recording too high. Upper bound: the first "
    "step takes as long as the other steps. Lower bound: the first step exceeds the other steps by up to twice their range.",
    advice={},
)
MIN_SHARE_ABOVE_OTHERS = 0.5
"""Minimum share of the first step's excess (over the median) that lies above the longest other step."""


def is_slow(dur: Int64) -> bool:
    """Returns whether the first duration is much longer than all other durations."""
    first, usual = int(dur[0]), usual_of(dur[1:])
    excess = first - usual.median
    far = first > FIRST * usual.median and excess > FAR * usual.deviation
    return far and first - int(dur[1:].max()) >= MIN_SHARE_ABOVE_OTHERS * excess and excess >= MIN_SHARE * dur.sum()


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
    detects="The first recorded step takes much longer than the other steps.",
    threshold=f"The first step takes more than {FIRST} times the median of the other steps. It exceeds this median by more "
    f"than {FAR} median absolute deviations.",
    saving="The excess of the first step, spread over the selected steps. Lower bound: the time of the first step, minus "
    "the longest other step, minus twice the range of the other steps. Upper bound: the time of the first step, minus the "
    "shortest other step, plus that range twice, plus the next step's gain.",
    needs="The first recorded step and at least three other steps.",
    notes="""
        The excess is at least 1 % of the time of all steps. At least half of the excess is beyond the longest other
        step; otherwise other steps are slow too. If the CPU is busy for 90 % of the steps and no GPU is, CPU times are
        compared. In the total saving, this step counts with its excess plus the saving in other steps. If the other
        findings save more in this step, their saving counts instead.

        `differs` is the part of the step whose time exceeds that of the other steps most: kernels, copies,
        communication, or idle time by cause. `differs_row` is the Python line, operator or call responsible, if it
        explains at least a tenth of that part. The finding mentions compilation if compilation takes at least half of
        the excess, because the rule `compilation` saves the same time.
    """,
    limits=(Limit.CPU, Limit.INITIALISATION, Limit.COMPILATION),
)
