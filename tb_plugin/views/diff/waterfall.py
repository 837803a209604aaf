"""Step time differences by part, exact in nanoseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

import msgspec

from tb_plugin.analysis.base import Part
from tb_plugin.payloads import Breakdown, Figures, Metric, Slice
from tb_plugin.views.diff.metrics import METRICS
from tb_plugin.views.diff.noise import Noise, noise_count

# Parts of a step with device work.
ON_DEVICE = ("kernel_ns", "memcpy_ns", "memset_ns", "unrecorded_ns", "communication_ns")
_UNRECORDED = METRICS["unrecorded_ns"]
# Name of a payload: idle time of all steps by cause.
IDLE = "idle"


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
        metrics.insert(ON_DEVICE.index(_UNRECORDED.key), _UNRECORDED)
    sums = [sum(frame.data[each.key].to_pylist()) if each.key in frame.data.column_names else 0 for each in metrics]
    reached = [0, *((2 * running + count) // (2 * count) for running in accumulate(sums))]
    values = [after - before for before, after in pairwise(reached)]
    return StepTime(dict(zip((m.key for m in metrics), values, strict=True)), reached[-1], metrics)


def idle_time(part: Part, count: int) -> StepTime | None:
    """Returns idle time by cause, divided by ``count``; None unless idle and device time add up to step time."""
    frame, idle = part.frames.get("steps"), part.payloads.get(IDLE)
    if frame is None or not isinstance(idle, Breakdown):
        return None
    worked = sum(sum(frame.data[key].to_pylist()) for key in ON_DEVICE if key in frame.data.column_names)
    if worked + idle.total != sum(frame.data["total_ns"].to_pylist()):
        return None
    metrics = [each.metric for each in idle.parts]
    reached = [
        (2 * each + count) // (2 * count) for each in accumulate((int(s.value) for s in idle.parts), initial=worked)
    ]
    values = [after - before for before, after in pairwise(reached)]
    return StepTime(dict(zip((m.key for m in metrics), values, strict=True)), reached[-1] - reached[0], metrics)


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
    name: str, title: str, window: str, base: StepTime, exp: StepTime, noise: Noise | None = None
) -> Breakdown:
    changes = part_differences(base, exp)
    metrics = [each for each in exp.metrics if base.parts[each.key] or exp.parts[each.key]]
    intervals = {} if noise is None else {each.key: noise.parts[each.key] for each in metrics}
    within = sum(not each.is_significant for each in intervals.values())
    count = f"{noise_count(within, len(intervals))}; " if intervals else ""
    return Breakdown(
        name=name,
        title=title,
        subtitle=f"{count}{window}; the parts sum exactly",
        unit="ns",
        total=exp.total_ns - base.total_ns,
        parts=[
            Slice(
                Metric(m.key, m.title, m.unit, f"Experiment minus baseline. {m.definition}", window),
                m.key.removesuffix("_ns"),
                changes[m.key],
                interval=intervals.get(m.key),
            )
            for m in metrics
        ],
        style="waterfall",
        start=base.total_ns,
        interval=None if noise is None else noise.step,
    )
