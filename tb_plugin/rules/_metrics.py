"""Metrics of findings."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN_STEPS, FULL_TRACE, SHARED, STEP, STEPS, define

METRICS = SHARED.adding(
    define(
        STEP,
        "ns",
        {"communication_ns": ("Communication", "Communication not overlapped by compute or copies.")},
    ),
    define(
        STEPS,
        "ns",
        {
            "saving_low_ns": ("Saves at least", "Lower bound of the saving per step."),
            "saving_high_ns": ("Saves at most", "Upper bound of the saving per step."),
            "saving_shared_ns": ("Shared", "Part of the upper bound that other findings would also save."),
            "earlier_work_ns": (
                "Work from before the recording",
                "Device time of work launched before the recording, per step.",
            ),
            "step_time_mean_ns": ("Step time", "Mean step duration."),
        },
    ),
    define(
        STEPS,
        "ratio",
        {
            "saving_ratio": ("Share of step", "Upper bound of the saving divided by mean step time."),
            "earlier_work_share": (
                "Work from before the recording",
                "Work from before the recording divided by step time.",
            ),
            "waiting_for_input": ("Data loading", "Exposed data loading time divided by step time."),
        },
    ),
    define(
        FULL_TRACE,
        "ratio",
        {
            "matrix_unknown_ratio": (
                "Unknown use of matrix units",
                "Time of kernels with unknown matrix unit use, divided by kernel time.",
            ),
        },
    ),
    define(
        CHOSEN_STEPS,
        "count",
        {
            "findings": ("Findings", "Checks that found a problem."),
            "rules_looked": ("Checks run", "Checks that ran, with or without a finding."),
            "evidence": ("Events", "Events that support the finding."),
        },
    ),
    define(
        "",
        "text",
        {
            "rule": ("Rule", "Rule id in docs/findings.md."),
            "finding": ("Finding", "Title of the rule."),
            "severity": ("Severity", "Set by the rule, or derived from the upper bound."),
            "confidence": ("Confidence", "Certainty of the cause and of the saving."),
        },
    ),
)
