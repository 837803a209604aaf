"""Metrics of stragglers."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, STEP, define

_MEAN = "mean of the chosen steps"
OF_STRAGGLERS = (
    define(
        CHOSEN,
        "bool",
        {
            "stands_out": (
                "Straggler",
                "It is late more often, and by more, than chance and noise explain: yes in the group in which it costs most. "
                "Of the same worker other groups see the same delay: no there.",
            )
        },
    ),
    define(
        CHOSEN,
        "text",
        {
            "late_pattern": (
                "Pattern",
                "When it is late. persistent: in more than 60 % of the steps. periodic: at every k-th. rotating: another "
                "worker in turn. single: in one step. irregular: in 20 % of the steps at least.",
            ),
            "worst_step": ("Worst step", "The step in which it costs most."),
            "usual_worker": (
                "Beside",
                "Whom to compare it with: of its group the worker with the median lateness; of a worker that is in no group "
                "of several the one with the median cost.",
            ),
            "late_how": (
                "How",
                "How its kernels differ: more calls, longer calls (more or larger input), slow device (all by one factor).",
            ),
            "held_up_by": (
                "Held up by",
                "The worker at the root of most of what others wait for it: one that was not itself held up.",
            ),
            "held_up_in": (
                "Held up in",
                "The group in which that worker was late, or communication takes longer than in others like it.",
            ),
            "late_cause": (
                "Cause",
                "What it does longer than the median of the others before the collectives at which it is last: of several "
                "the one with most time.",
            ),
        },
    ),
    define(
        CHOSEN,
        "code",
        {
            "late_kernel": (
                "Kernel",
                "The kernel, without devices the operator, that takes most time more than on the others.",
            )
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "stragglers": (
                "Stragglers",
                "Workers that are late more often, and by more, than chance and noise explain.",
            ),
            "straggler_rank": (
                "Worst straggler",
                "Number of the rank that costs most, of those late again and again where there are any; null where none is "
                "worth a word.",
            ),
            "absent_ranks": (
                "Absent ranks",
                "Ranks of the job without a trace; null where their numbers are not recorded.",
            ),
            "late_steps": ("Late steps", "Steps in which it costs more than noise, and 1 % of the step at least."),
            "late_every": ("Every", "It is late at every so many steps."),
            "job_steps": ("Steps", "Steps that are looked at."),
            "collectives_met": (
                "Collectives",
                "Matched collectives of the group that it takes part in; calls between two ranks are none.",
            ),
            "late_calls": ("Calls of the kernel", "In its late steps."),
        },
    ),
    define(
        CHOSEN,
        "number",
        {
            "late_z": (
                "Robust z",
                "Its median lateness less the median of its group, over 1.4826 times their median absolute deviation; of "
                "groups of six workers or more.",
            ),
            "late_q": (
                "Dixon's Q",
                "Of the latest worker of a group of three to five: from its median lateness to the next over the range.",
            ),
            "late_factor": (
                "Factor",
                "How much longer the kernel takes a call than on the others; of a slow device all kernels.",
            ),
            "usual_calls": ("Calls on the others", "Median of the other workers of its group, in the same steps."),
        },
    ),
    define(
        _MEAN,
        "ns",
        {
            "lost_ns": (
                "Lost",
                "What would be gained if it were as fast as the next: of stragglers as the calls of the job are played "
                "again, of others, and on the host, the sum over collectives at which it is last of how much longer others "
                "wait.",
            ),
            "lost_low_ns": (
                "Lost, at least",
                "Of it what the step gains for sure: nobody waits as long for somebody else, no rank is missing, nothing "
                "hides it. Of the ten costliest; of others 0, as of all where a rank of the job is absent.",
            ),
            "inherited_ns": (
                "Inherited",
                "Lateness that is no fault of its own: it waited longer for others in other groups before.",
            ),
            "late_cause_ns": (
                "Longer by",
                "How much longer than the others it does that, before collectives at which it is last.",
            ),
            "late_unexplained_ns": (
                "Not explained",
                "What it costs at collectives that it has, less what it does longer than the others before these.",
            ),
            "late_kernel_ns": (
                "Kernel longer by",
                "Time of the kernel less the median of the others, in its late steps.",
            ),
            "compute_spread_ns": ("Uneven", "Longest computation of a step less the mean of the workers."),
            "more_compute_ns": (
                "More computation",
                "Before collectives at which it is last, less the median of the others.",
            ),
            "more_communication_ns": ("More communication", "In other groups, before collectives at which it is last."),
            "more_copy_ns": (
                "More copies",
                "Copies that computation does not hide, before collectives at which it is last.",
            ),
            "more_input_ns": (
                "More input",
                "Nothing on the device while the host loads data, before such collectives.",
            ),
            "more_host_ns": (
                "More host",
                "Nothing on the device while the host is busy or late, before such collectives.",
            ),
            "more_idle_ns": ("More idle", "The rest, before such collectives."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "late_median_ns": (
                "Median lateness",
                "Arrival less the median of the collective; without clocks by durations: the last one's is the shortest.",
            ),
            "late_p95_ns": ("95 % lateness", "Lateness that it stays below at 95 % of its collectives."),
        },
    ),
    define(
        STEP,
        "ns",
        {"worst_lost_ns": ("Lost in one step", "Lost, in the step in which it costs most alone.")},
    ),
    define(
        STEP,
        "ratio",
        {"worst_lost_share": ("Share of that step", "Lost in one step over the time of that step.")},
    ),
    define(
        _MEAN,
        "ratio",
        {
            "lost_share": ("Lost share", "Lost over the mean time of a step."),
            "compute_spread_share": ("Uneven share", "Uneven over the mean time of a step."),
        },
    ),
    define(
        CHOSEN, "ratio", {"late_cause_share": ("Of what differs", "Part of all that it does longer than the others.")}
    ),
)
