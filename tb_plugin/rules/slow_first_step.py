"""The first recorded step takes much longer than the others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.rules._base import WORTH, Rule, Scene, Seen
from tb_plugin.rules._limits import Limit
from tb_plugin.rules._slow_steps import FAR, OTHERS, Words, has_several_modes, lengths, seen, usual_of

Int64 = npt.NDArray[np.int64]

FIRST = 1.5
"""So many times as long as the others: less is told from noise in longer recordings only."""
_WORDS = Words(
    rule="slow_first_step",
    text="The first recorded step takes {unusual_ns}, the others {usual_step_ns}: {excess_ratio} of the time of these steps.",
    why="It is paid once, not in each step: the saving is that of the recorded steps, and means of steps are too high by "
    "it. The bounds let the first step take as long as the others, or be up to twice their range beyond them.",
    advice={},
)
ALONE = 0.5
"""Share of its excess by which it is longer than any of the others: else something makes steps slow every now and then."""


def is_slow(dur: Int64) -> bool:
    """Returns whether the first of these durations is much longer than usual, and alone with that."""
    first, usual = int(dur[0]), usual_of(dur[1:])
    excess = first - usual.median
    far = first > FIRST * usual.median and excess > FAR * usual.deviation
    return far and first - int(dur[1:].max()) >= ALONE * excess and excess >= WORTH * dur.sum()


def _look(s: Scene) -> Seen | None:
    steps, every = s.steps, s.trace.steps
    if not every.recorded or len(steps.label) <= OTHERS or has_several_modes(steps) or steps.label[0] != every.label[0]:
        return None
    dur = lengths(s)
    if not is_slow(dur):
        return None
    return seen(s, _WORDS, dur, np.array([0]), np.arange(1, len(dur)))


RULE = Rule("slow_first_step", "Slow first step", _look, limits=(Limit.CPU, Limit.INITIALISATION))
