"""Numbers of findings: what mending something would save, and what rules measure."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN_STEPS, SHARED, STEP, STEPS, WHOLE, define

METRICS = SHARED.adding(
    define(
        STEP,
        "ns",
        {
            "communication_ns": (
                "Communication",
                "A collective is under way and nothing computes or copies meanwhile.",
            )
        },
    ),
    define(
        STEPS,
        "ns",
        {
            "saving_low_ns": (
                "Saves at least",
                "By how much a step would be shorter, a mean over the steps: a lower bound.",
            ),
            "saving_high_ns": (
                "Saves at most",
                "By how much a step would be shorter, a mean over the steps: an upper bound.",
            ),
            "saving_shared_ns": (
                "Shared",
                "The part of the upper bound that mending all the other findings would save as well.",
            ),
            "earlier_work_ns": (
                "Work from before the recording",
                "Time per step in which a device runs work that was launched before the recording started.",
            ),
            "step_time_mean_ns": ("Step time", "Mean duration of the steps."),
        },
    ),
    define(
        STEPS,
        "ratio",
        {
            "saving_ratio": ("Of the step", "What mending it would save at most over the mean time of a step."),
            "earlier_work_share": ("Work from before the recording", "Its time divided by step time."),
            "waiting_for_input": ("Data loading", "Data loader's part of the mean step."),
        },
    ),
    define(
        WHOLE,
        "ratio",
        {
            "matrix_unknown_ratio": (
                "Unknown use of matrix units",
                "Share of all kernel time in kernels whose names do not tell whether they use matrix units.",
            ),
        },
    ),
    define(
        CHOSEN_STEPS,
        "count",
        {
            "findings": ("Findings", "Rules that apply."),
            "rules_looked": ("Rules", "Rules that looked at the steps, whether they apply or not."),
            "evidence": ("Events", "Events that show it."),
        },
    ),
    define(
        "",
        "text",
        {
            "rule": ("Rule", "Id of the rule, as in docs/reference/rules.md."),
            "finding": ("Finding", "What the rule is about."),
            "severity": ("Severity", "By what mending it would save at most; of rules that cannot tell their own."),
            "confidence": (
                "Confidence",
                "How sure it is that what was seen is the cause, and that mending it saves this.",
            ),
        },
    ),
)
