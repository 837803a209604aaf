"""Metrics of server steps: work and speed."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN_STEPS, P50, P95, SHARED, STEP, define

STEADY = "steady state, else selected steps"
TOKENS_PER_TIME = "New tokens divided by step-to-step time (of a single step: by step time without unrecorded work)."
METRICS = SHARED.adding(
    define(
        "",
        "text",
        {
            "mode": ("Mode", "prefill (prompts), decode (next tokens), mixed, idle or denoising."),
            "mode_class": ("Class", "Kernel class."),
            "outlier_cause": (
                "Reason",
                "Idle cause (or device work) with the largest excess over the median decode step.",
            ),
        },
    ),
    define(
        "",
        "bool",
        {
            "is_steady": (
                "Steady",
                "The step is in the steady state: similar decode steps that generate the most tokens.",
            ),
            "is_outlier": ("Outlier", "Decode step far longer than the median of similar batches."),
        },
    ),
    define(
        STEP,
        "count",
        {
            "batch": ("Batch", "Recorded requests per step."),
            "batch_decoding": ("Decoding", "Requests whose prompt has been processed."),
            "step_tokens": ("Tokens", "Recorded number of processed tokens; one per decoding request."),
            "step_context": ("Context", "Recorded context tokens of all requests."),
            "step_generated": ("New tokens", "One token per decoding request."),
        },
    ),
    define(
        STEP,
        "ns",
        {
            "served_step_ns": ("Step time", "Time from step start to step end, including device work."),
            "served_period_ns": ("Step to step", "Time from step start to next step start."),
            "served_busy_ns": ("Device busy", "Time while device work of the step runs."),
            "served_gap_ns": ("Gap before", "Device idle time since the last work of the previous decode step."),
        },
    ),
    define(CHOSEN_STEPS, "number", {"mode_tokens_per_second": ("Tokens/s", TOKENS_PER_TIME)}),
    define(STEP, "number", {"step_tokens_per_second": ("Tokens/s", TOKENS_PER_TIME)}),
    define(
        CHOSEN_STEPS,
        "count",
        {"mode_steps": ("Steps", "Steps of the mode."), "mode_generated": ("New tokens", "New tokens of the mode.")},
    ),
    define(
        CHOSEN_STEPS,
        "ns",
        {
            "mode_total_ns": ("Time", "Sum of step times."),
            "mode_mean_ns": ("Mean", "Mean step time."),
            "mode_p50_ns": ("P50", P50.format("step time")),
            "mode_p95_ns": ("P95", P95.format("step time")),
            "mode_class_ns": ("Kernels", "Kernel time of the class in the mode."),
            "mode_busy_ns": ("Device busy", "Device busy time, summed over steps."),
        },
    ),
    define(
        CHOSEN_STEPS,
        "ratio",
        {"mode_busy_ratio": ("Busy in steps", "Device busy divided by step time, excluding unrecorded work.")},
    ),
    define(CHOSEN_STEPS, "number", {"tokens_per_second": ("Tokens/s", TOKENS_PER_TIME)}),
    define(
        CHOSEN_STEPS,
        "ns",
        {"prefill_p50_ns": ("Prefill step", P50.format("prefill step time without unrecorded work"))},
    ),
    define("the steady state", "number", {"steady_tokens_per_second": ("Steady tokens/s", TOKENS_PER_TIME)}),
    define(
        STEADY,
        "ns",
        {
            "decode_cycle_ns": ("Step to step", "Mean time from one decode step start to the next."),
            "decode_work_ns": ("Device busy", "Mean device busy time per decode cycle."),
            "decode_idle_ns": ("Device idle", "Mean device idle time per decode cycle."),
            "decode_p50_ns": ("Decode step", P50.format("decode step time without unrecorded work")),
            "decode_p95_ns": ("Decode P95", P95.format("decode step time without unrecorded work")),
            "decode_gap_ns": ("Gap", "Mean device idle time between decode steps."),
        },
    ),
    define(
        STEADY,
        "ratio",
        {"decode_busy_ratio": ("Device busy", "Device busy divided by step-to-step time, excluding unrecorded work.")},
    ),
    define(STEADY, "count", {"figure_steps": ("Steps used", "Steps used for these numbers.")}),
    define(CHOSEN_STEPS, "ratio", {"mode_class_ratio": ("Share", "Share of the mode's kernel time in this class.")}),
)
