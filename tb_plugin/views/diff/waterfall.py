"""Step time differences by part, exact in nanoseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

import msgspec

from tb_plugin.analysis.base import Part
from tb_plugin.payloads import Breakdown, Figures, Link, Metric, Slice
from tb_plugin.views.diff.metrics import CLASS_SUFFIX, METRICS
from tb_plugin.views.diff.noise import Noise, noise_count
from tb_plugin.views.diff.step_parts import is_on_device

_UNRECORDED = METRICS["unrecorded_ns"]


class StepTime(msgspec.Struct, frozen=True):
    """Parts of the mean step of a profile, or sums of the parts over all steps. The parts add up to ``total_ns``."""

    parts: Mapping[str, int]
    """Time of each part in ns. The key is its column in the Overview's table of steps."""
    total_ns: int
    metrics: Sequence[Metric]


def step_time(part: Part, count: int) -> StepTime | None:
    """Returns the step parts summed and divided by ``count``, which add up exactly; None without steps."""
    frame = part.frames.get("steps")
    if frame is None:
        return None
    metrics = [
        column.metric for column in frame.columns if column.metric.unit == "ns" and column.metric.key != "total_ns"
    ]
    if _UNRECORDED.key not in frame.data.column_names:  # as in most recordings
        at = next((i for i, each in enumerate(metrics) if not is_on_device(each.key)), len(metrics))
        metrics.insert(at, _UNRECORDED)
    sums = [sum(frame.data[each.key].to_pylist()) if each.key in frame.data.column_names else 0 for each in metrics]
    reached = [0, *((2 * running + count) // (2 * count) for running in accumulate(sums))]
    values = [after - before for before, after in pairwise(reached)]
    return StepTime(dict(zip((m.key for m in metrics), values, strict=True)), reached[-1], metrics)


def part_differences(base: StepTime, exp: StepTime) -> dict[str, int]:
    """Returns experiment minus baseline for each part of the step. The differences add up to the total difference."""
    return {metric.key: exp.parts[metric.key] - base.parts[metric.key] for metric in exp.metrics}


def leading_part(base: StepTime, exp: StepTime) -> str:
    """Returns the part with the largest change in the direction of the total change, also if the sides are swapped."""
    parts = part_differences(base, exp)
    slower = exp.total_ns >= base.total_ns
    return max(parts, key=lambda part: (parts[part] if slower else -parts[part], part))


def headline(
    base_ns: float,
    exp_ns: float,
    subtitle: str = "",
    titles: tuple[str, str] = ("", ""),
    notes: tuple[str, str, str] = ("", "", ""),
) -> Figures:
    figures = [
        METRICS.figure("base_step_ns", base_ns, titles[0], note=notes[0]),
        METRICS.figure("exp_step_ns", exp_ns, titles[1], note=notes[1]),
        METRICS.figure("delta_step_ns", exp_ns - base_ns, note=notes[2]),
        METRICS.figure("step_ratio", exp_ns / base_ns if base_ns else None),
    ]
    return Figures("headline", "Headline", subtitle, figures, "headline")


def waterfall(
    title: str, window: str, base: StepTime, exp: StepTime, noise: Noise | None, links: Mapping[str, Link]
) -> Breakdown:
    """Returns the change of each part. ``links`` lead from a part to its rows."""
    changes = part_differences(base, exp)
    metrics = [each for each in exp.metrics if base.parts[each.key] or exp.parts[each.key]]
    intervals = {} if noise is None else {each.key: noise.parts[each.key] for each in metrics}
    within = sum(not each.is_significant for each in intervals.values())
    count = f"{noise_count(within, len(intervals))}; " if intervals else ""
    return Breakdown(
        name="waterfall",
        title=title,
        subtitle=f"{count}{window}; the parts sum exactly",
        unit="ns",
        total=exp.total_ns - base.total_ns,
        parts=[
            Slice(
                Metric(m.key, m.title, m.unit, f"Experiment minus baseline. {m.definition}", window),
                m.key.removesuffix(CLASS_SUFFIX).removesuffix("_ns"),
                changes[m.key],
                links.get(m.key),
                interval=intervals.get(m.key),
            )
            for m in metrics
        ],
        style="waterfall",
        start=base.total_ns,
        interval=None if noise is None else noise.step,
    )
