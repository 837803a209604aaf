"""Metrics of stragglers."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, STEP, define

_MEAN = "mean of the selected steps"


def _excess(activity: str) -> str:
    return f"{activity} before late arrivals, minus the ranks' median."


OF_STRAGGLERS = (
    define(
        CHOSEN,
        "bool",
        {"stands_out": ("Straggler", "The rank is significantly late; only its costliest group counts.")},
    ),
    define(
        CHOSEN,
        "text",
        {
            "late_pattern": (
                "Pattern",
                "persistent: over 60 % of steps. periodic: every k-th step. rotating: ranks take turns. single: "
                "one step. irregular: other steps.",
            ),
            "worst_step": ("Worst step", "Step with the largest cost."),
            "usual_worker": ("Reference rank", "Rank of the group with the median lateness."),
            "late_how": (
                "Kernel difference",
                "More calls, longer calls, or a slow device (all kernels slower).",
            ),
            "held_up_by": ("Delayed by", "Rank that causes most of this rank's lateness."),
            "held_up_in": ("Delayed in", "Group in which the rank communicates slowly."),
            "late_cause": ("Cause", "Activity with the largest excess over other ranks, before late arrivals."),
        },
    ),
    define(
        CHOSEN,
        "code",
        {"late_kernel": ("Kernel", "Kernel (or operator) with the largest excess over other ranks.")},
    ),
    define(
        CHOSEN,
        "count",
        {
            "stragglers": ("Stragglers", "Ranks that are significantly late."),
            "straggler_rank": (
                "Worst straggler",
                "Rank with the largest cost; repeatedly late ranks first.",
            ),
            "absent_ranks": ("Missing ranks", "Ranks of the job without a trace."),
            "late_steps": ("Late steps", "Steps with a significant cost (at least 1 %)."),
            "late_every": ("Period", "Steps from one late step to the next."),
            "job_steps": ("Steps", "Analysed steps."),
            "collectives_met": (
                "Collectives",
                "Matched collectives of the rank in the group, excluding point-to-point calls.",
            ),
            "late_calls": ("Kernel calls", "Calls of the kernel in late steps."),
        },
    ),
    define(
        CHOSEN,
        "number",
        {
            "late_factor": ("Factor", "Kernel time per call divided by that of other ranks."),
            "usual_calls": ("Calls on other ranks", "Median kernel calls of the other ranks."),
        },
    ),
    define(
        _MEAN,
        "ns",
        {
            "lost_ns": ("Cost", "Step time saved if this rank were as fast as the next slowest."),
            "late_cause_ns": ("Excess", "Excess of this activity over other ranks, before late arrivals."),
            "late_kernel_ns": ("Kernel excess", "Kernel time minus the median of other ranks, in late steps."),
            "compute_spread_ns": (
                "Compute spread",
                "Longest compute time minus the mean over ranks, per step.",
            ),
            "more_compute_ns": ("Compute excess", _excess("Compute")),
            "more_communication_ns": ("Communication excess", _excess("Communication in other groups")),
            "more_copy_ns": ("Copy excess", _excess("Exposed copy time")),
            "more_input_ns": ("Data loading excess", _excess("Idle time during data loading")),
            "more_host_ns": ("Host excess", _excess("Idle time due to the host")),
            "more_idle_ns": ("Idle excess", _excess("Idle time due to other causes")),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "late_median_ns": (
                "Median lateness",
                "Median over collectives: arrival minus the median arrival of all ranks but the last.",
            ),
        },
    ),
    define(
        STEP,
        "ns",
        {"worst_lost_ns": ("Cost of worst step", "Cost in the most expensive step.")},
    ),
    define(
        STEP,
        "ratio",
        {"worst_lost_share": ("Share of worst step", "Cost of the worst step divided by its duration.")},
    ),
    define(
        _MEAN,
        "ratio",
        {
            "lost_share": ("Cost share", "Cost divided by mean step time."),
            "compute_spread_share": ("Compute spread share", "Compute spread divided by mean step time."),
        },
    ),
    define(
        CHOSEN, "ratio", {"late_cause_share": ("Share of excess", "Excess of this activity divided by all excess.")}
    ),
)
