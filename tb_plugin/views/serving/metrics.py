"""Metrics of Serving: work and speed of server steps."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN_STEPS, SHARED, STEP, define

STEADY = "the steady state, else the selected steps"
METRICS = SHARED.adding(
    define(
        "",
        "text",
        {
            "mode": ("Mode", "What the server did: prefill (prompts), decode (next tokens), mixed (both), idle, denoising."),
            "mode_class": ("Class", "What the kernels do, by their names."),
            "outlier_cause": (
                "Why",
                "Of a step that takes far longer: what a device idled for more than in the median decode step, or its work.",
            ),
        },
    ),
    define("", "bool", {
        "is_steady": ("Steady", "In the steady state: the run of usual decode steps of like batches with most new tokens."),
        "is_outlier": ("Outlier", "A decode step far longer than the median of those of a like batch."),
    }),
    define(
        STEP,
        "count",
        {
            "batch": ("Batch", "Requests, as the step states them."),
            "batch_decoding": ("Decoding", "Requests among them that are past their prompt."),
            "step_tokens": ("Tokens", "Tokens that go through the network, as stated; of a decode step one a request."),
            "step_context": ("Context", "Tokens that attention looks back at, of all requests together, as stated."),
            "step_generated": (
                "New tokens",
                "One for each request that decodes. Not known where one may get several (speculative decoding).",
            ),
        },
    ),
    define(
        STEP,
        "ns",
        {
            "served_step_ns": ("Step time", "From the step's start to its end, with the device work that it launched."),
            "served_period_ns": ("To the next", "From the step's start to that of the next one; not known of the last."),
            "served_busy_ns": ("Device busy", "Time in which a device runs work that the step launched."),
            "served_gap_ns": (
                "Gap before",
                "Of a decode step right after another: time in which no device works, from the end of the last work of the "
                "one before to the begin of its own first.",
            ),
        },
    ),
    define(CHOSEN_STEPS, "number", {
        "mode_tokens_per_second": ("Tokens/s", "New tokens of its steps over their time to the next, where known."),
    }),
    define(STEP, "number", {
        "step_tokens_per_second": ("Tokens/s", "New tokens over the time to the next step."),
    }),
    define(
        CHOSEN_STEPS,
        "count",
        {"mode_steps": ("Steps", "Steps of the mode."), "mode_generated": ("New tokens", "Those of all its steps.")},
    ),
    define(
        CHOSEN_STEPS,
        "ns",
        {
            "mode_total_ns": ("Time", "Times of its steps, added up."),
            "mode_mean_ns": ("Mean", "Mean time of its steps."),
            "mode_p50_ns": ("p50", "Median time of its steps (linear interpolation)."),
            "mode_p95_ns": ("p95", "95th percentile of the times of its steps (linear interpolation)."),
            "mode_class_ns": ("Kernels", "Summed durations of the kernels of the class that the steps of the mode launch."),
            "mode_busy_ns": ("Device busy", "Time in which a device runs work of its steps, added up over the steps."),
        },
    ),
    define(CHOSEN_STEPS, "ratio", {
        "mode_busy_ratio": (
            "Busy in steps",
            "Device busy over the time of its steps without unrecorded work; the time between steps is not part of it.",
        ),
    }),
    define(
        CHOSEN_STEPS,
        "number",
        {
            "tokens_per_second": (
                "Tokens/s",
                "New tokens of all chosen steps over their time, each up to the begin of the next; a last one counts not. "
                "The token that ends a prefill is not counted. Not known where a step may make several for a request.",
            )
        },
    ),
    define("the steady state", "number", {
        "steady_tokens_per_second": ("Steady tokens/s", "The same of the steps of the steady state."),
    }),
    define(
        STEADY,
        "ns",
        {
            "decode_cycle_ns": ("Step to step", "Mean time from a decode step's start to that of the next step, its cycle."),
            "decode_work_ns": ("Device works", "Time of such a cycle in which any device works: the mean."),
            "decode_idle_ns": (
                "Device idles",
                "The rest of such a cycle without unrecorded work: in the step and until the next one.",
            ),
            "decode_p50_ns": ("Decode step", "Median time of decode steps (linear interpolation)."),
            "decode_p95_ns": ("Decode p95", "95th percentile of the times of decode steps (linear interpolation)."),
            "decode_gap_ns": ("Gap between decode steps", "Mean idle time of the device between neighbours that decode."),
        },
    ),
    define(STEADY, "ratio", {
        "decode_busy_ratio": (
            "Device busy",
            "Of decode steps: time in which any device works over that from step to step without unrecorded work.",
        ),
    }),
    define(STEADY, "count", {"figure_steps": ("Steps behind it", "Steps that the figures are about.")}),
    define(CHOSEN_STEPS, "ratio", {
        "mode_class_ratio": ("Share", "Of the summed durations of the kernels that its steps launch, those of the class."),
    }),
)  # fmt: skip
