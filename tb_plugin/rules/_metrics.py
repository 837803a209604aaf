"""Numbers of findings: what mending something would save, and what rules measure."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN_STEPS, LINE, SHARED, STEP, STEPS, WHOLE, define

METRICS = SHARED.adding(
    define(
        STEP,
        "ns",
        {
            "communication_ns": ("Communication", "Communication not overlapped by compute or copies."),
        },
    ),
    define(
        STEPS,
        "ns",
        {
            "saving_low_ns": ("Saves at least", "Lower bound of the saving per step."),
            "saving_high_ns": ("Saves at most", "Upper bound of the saving per step."),
            "saving_shared_ns": ("Shared", "Part of the upper bound that other findings also save."),
            "sync_ns": ("Synchronisation", "Host time in synchronising calls per step, without the profiler's."),
            "earlier_work_ns": (
                "Work from before the recording",
                "Device time of work launched before the recording, per step.",
            ),
            "step_time_mean_ns": ("Step time", "Mean step duration."),
            "dataloader_mean_ns": ("Data loading", "Exposed data loading time per step."),
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
        WHOLE,
        "ratio",
        {
            "matrix_unknown_ratio": (
                "Unknown use of matrix units",
                "Time of kernels with unknown use of matrix units divided by kernel time.",
            ),
            "matrix_eligible_ratio": (
                "Eligible for matrix units",
                "Kernel time of eligible operators divided by kernel time of all operators.",
            ),
            "matrix_used_ratio": ("On matrix units", "Time of kernels on matrix units divided by kernel time."),
            "memory_peak_ratio": ("Peak memory", "Peak allocated divided by device memory."),
        },
    ),
    define(
        STEPS,
        "number",
        {"sync_calls": ("Synchronising calls", "Synchronising calls per step.")},
    ),
    define(
        STEPS,
        "code",
        {
            "sync_line": ("Python line", LINE.format("synchronisation")),
            "evidence_line": ("Python line", "Python line of the event or its launch."),
        },
    ),
    define(
        WHOLE,
        "bytes",
        {
            "memory_peak_bytes": ("Peak allocated", "Largest allocated memory of the framework."),
        },
    ),
    define(
        CHOSEN_STEPS,
        "count",
        {
            "findings": ("Findings", "Checks with a finding."),
            "rules_looked": ("Checks run", "Checks that ran, with or without a finding."),
            "evidence": ("Events", "Events behind the finding."),
        },
    ),
    define(
        "",
        "text",
        {
            "others": ("Others", "Other backends in use."),
            "ignored_rules": ("Names", "Names in ``torch_trace_ignore`` without a rule."),
            "rule": ("Rule", "Rule id in docs/findings.md."),
            "finding": ("Finding", "Title of the rule."),
            "severity": ("Severity", "Severity by upper bound of the saving, else set by the rule."),
            "confidence": ("Confidence", "Certainty of the cause and of the saving."),
        },
    ),
)
