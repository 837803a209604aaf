"""From the step time of one profile to that of another, part by part, in whole nanoseconds that sum exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tb_plugin.analyses.base import Part
from tb_plugin.payloads import Metric


@dataclass(frozen=True)
class StepTime:
    """The parts of the mean step (or of all steps) of one profile; ``sum(parts.values()) == total_ns``."""

    parts: Mapping[str, int]
    """Column of the Overview's table of steps -> nanoseconds."""
    total_ns: int
    metrics: Sequence[Metric]
    """Metrics of the parts, in order of priority."""


def step_time(part: Part, count: int) -> StepTime | None:
    """Returns the Overview's steps divided by ``count``; None where the part holds none.

    Each running sum is rounded, not each part: so every part is within a nanosecond of its mean, and they sum to the
    rounded mean of the whole.
    """
    frame = part.frames.get("steps")
    if frame is None:
        return None
    metrics = [
        column.metric for column in frame.columns if column.metric.unit == "ns" and column.metric.key != "total_ns"
    ]
    sums = [sum(frame.data[metric.key].to_pylist()) for metric in metrics]
    reached = [0, *((2 * running + count) // (2 * count) for running in accumulate(sums))]
    values = [after - before for before, after in pairwise(reached)]
    return StepTime(dict(zip((m.key for m in metrics), values, strict=True)), reached[-1], metrics)


def difference(base: StepTime, exp: StepTime) -> dict[str, int]:
    """Returns experiment less baseline, part by part, in order of priority; sums to the difference of the totals."""
    return {metric.key: exp.parts[metric.key] - base.parts[metric.key] for metric in exp.metrics}


def leading_part(base: StepTime, exp: StepTime) -> str:
    """Returns the part that changed most in the direction of the whole; the same from both sides."""
    parts = difference(base, exp)
    slower = exp.total_ns >= base.total_ns
    return max(parts, key=lambda part: (parts[part] if slower else -parts[part], part))
