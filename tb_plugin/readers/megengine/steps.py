"""Steps of a timeline: what ran between two calls of ``Profiler.step``, or between two steps of the optimizer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.trace.open import StatedSteps

Int64 = npt.NDArray[np.int64]

STOPPED, OPTIMIZER = "StopStep", "step"


def steps_from(marks: Int64, work: Int64, begin: int, end: int, *, with_rest: bool) -> StatedSteps | None:
    """Returns the steps that end at these times (ns), the first from ``begin``; None without any.

    ``with_rest``: what follows up to ``end`` is one too, where operators began in it (``work``: when they did).
    """
    if not len(marks):
        return None
    bounds = np.unique(np.concatenate(([begin], marks[marks > begin])))
    if with_rest and (work >= bounds[-1]).any() and end > bounds[-1]:
        bounds = np.append(bounds, end)
    if len(bounds) < 2:
        return None
    return StatedSteps(tuple(str(number) for number in range(len(bounds) - 1)), bounds[:-1], bounds[1:])
