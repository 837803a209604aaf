"""Intervals of changes of a step; step times of both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.base import Part
from tb_plugin.analysis.noise import MIN_STEPS, change_intervals
from tb_plugin.payloads import Dots, Figure, Interval, Scatter
from tb_plugin.views.diff.metrics import METRICS

# Dots per side of the chart of step times.
DOTS = 500


class Noise(msgspec.Struct, frozen=True):
    """Intervals of the changes of the step time and of its parts."""

    step: Interval
    parts: Mapping[str, Interval]


def step_noise(base: Part, exp: Part, keys: Sequence[str], divisors: tuple[int, int]) -> Noise | None:
    """Returns the intervals of the parts in ``keys``, or None if a side has too few steps.

    Changes are differences of sums over steps, each divided by its divisor.
    """
    frames = [part.frames.get("steps") for part in (base, exp)]
    if None in frames:
        return None
    one, other = (frame.data for frame in frames if frame is not None)
    scales = (one.num_rows / divisors[0], other.num_rows / divisors[1])
    found = step_intervals(one, other, ("total_ns", *keys), scales)
    return Noise(found["total_ns"], {key: found[key] for key in keys}) if found else None


def step_intervals(
    base: pa.Table, exp: pa.Table, keys: Sequence[str], scales: tuple[float, float] = (1.0, 1.0)
) -> dict[str, Interval]:
    """Returns the intervals of the columns of two tables with one row per step; none if a side has too few steps.

    A missing column is 0 in all steps.
    """
    if min(base.num_rows, exp.num_rows) < MIN_STEPS:
        return {}
    samples = [
        np.stack(
            [np.asarray(side[key]) if key in side.column_names else np.zeros(side.num_rows, np.int64) for key in keys]
        )
        for side in (base, exp)
    ]
    low, high = change_intervals(samples[0], samples[1], scales)
    return {key: Interval(round(low[i]), round(high[i])) for i, key in enumerate(keys)}


def noise_count(within: int, count: int) -> str:
    return f"{within} of {count} changes are within noise"


def noise_note(noise: Noise | None) -> str:
    return "noise unknown" if noise is None else "significant" if noise.step.is_significant else "within noise"


def change_sentence(subject: str, noise: Noise | None, steps: tuple[int, int], remark: str = "") -> str:
    """Returns a template for the change of ``subject`` that tells whether the change is significant."""
    if noise is None:
        few = [side for side, count in zip(("baseline", "experiment"), steps, strict=True) if count < MIN_STEPS]
        sides = f"the {few[0]} has" if len(few) == 1 else "both sides have"
        return (
            f"{subject} changed by {{delta_step_ns}}{remark}. Noise is unknown: {sides} fewer than {MIN_STEPS} steps."
        )
    how = "changed significantly" if noise.step.is_significant else "did not change significantly"
    interval = "(95 % interval {interval_low_ns} to {interval_high_ns})"
    return f"{subject} {how}: {{delta_step_ns}} {interval}{remark}."


def interval_figures(noise: Noise | None) -> list[Figure]:
    if noise is None:
        return []
    return [METRICS.figure("interval_low_ns", noise.step.low), METRICS.figure("interval_high_ns", noise.step.high)]


def step_times(base: Part, exp: Part) -> dict[str, Scatter]:
    """Returns the chart of the selected steps of both sides. Fewer than two steps on both sides are no chart."""
    groups = []
    for title, category, part in (("Baseline", "other", base), ("Experiment", "step", exp)):
        frame = part.frames.get("steps")
        if frame is None or not part.steps:
            return {}
        every = -(-frame.data.num_rows // DOTS)
        times = frame.data["total_ns"].to_pylist()
        labels = [str(each) for each in frame.data["step"].to_pylist()]
        numbers: list[int | float] = [*range(1, len(times) + 1)]
        groups.append(Dots(title, category, labels[::every], numbers[::every], times[::every]))
    if all(len(group.x) < 2 for group in groups):
        return {}
    x, y = METRICS.metric("step_position"), METRICS.metric("step_total_ns", "Step time")
    return {"step_times": Scatter("step_times", "Step times", "selected steps in order", x, y, groups, "")}
