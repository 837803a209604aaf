"""Comparison of profiles with missing kernels."""

from __future__ import annotations

from tb_plugin.analysis.base import Part
from tb_plugin.payloads import Figures, Notice
from tb_plugin.views.diff.metrics import METRICS

REPORTED_STEP = "diff.stated_step_ns"
# Fact of a profile with missing kernels: its reported compute time.
REPORTED_COMPUTE = "diff.stated_compute_ns"
RECORDED_COMPUTE = "diff.recorded_compute_ns"


def missing_kernels(base: Part, exp: Part) -> list[Notice]:
    """Returns a finding for each side with missing kernels. They would look like saved time."""
    sides = (("baseline", base), ("experiment", exp))
    return [_notice(name, side) for name, side in sides if REPORTED_COMPUTE in side.facts]


def _notice(name: str, side: Part) -> Notice:
    return Notice(
        "kernels_missing",
        "high",
        f"Kernels of the {name} are missing: its profiler reports {{stated_compute_ns}} of computation, but its "
        "kernels cover only "
        "{recorded_compute_ns}. This can make kernels and step parts look new, missing or faster.",
        "Choose a profile with recorded kernels. Only the reported step times can be compared.",
        [METRICS.figure(fact.removeprefix("diff."), side.facts[fact]) for fact in (REPORTED_COMPUTE, RECORDED_COMPUTE)],
    )


def reported_headline(base: Part, exp: Part) -> Figures | None:
    """Returns the reported step times of both sides if kernels are missing, else None.

    Also None if a side reports no step time.
    """
    one, other = base.facts.get(REPORTED_STEP), exp.facts.get(REPORTED_STEP)
    if not one or other is None or not any(REPORTED_COMPUTE in side.facts for side in (base, exp)):
        return None
    figures = [
        METRICS.figure("base_step_ns", one, "Baseline, reported"),
        METRICS.figure("exp_step_ns", other, "Experiment, reported"),
        METRICS.figure("delta_step_ns", other - one),
        METRICS.figure("step_ratio", other / one),
    ]
    return Figures("headline", "Headline", "as reported by the profiler", figures, "headline")
