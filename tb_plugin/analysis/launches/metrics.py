"""Metrics of launches, queues and kernel sequences."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, CHOSEN_STEPS, SHARED, define

METRICS = SHARED.adding(
    define(
        CHOSEN,
        "count",
        {
            "launches": ("Launches", "Calls that launched a kernel, copy or set; of several pieces the first counts."),
            "empty_queue_launches": (
                "Empty queue",
                "Launches that returned when all earlier work of their stream had ended, unrecorded work as well.",
            ),
            "short_launches": (
                "Short",
                "Launches whose call takes longer than the kernel; launches of graphs are none.",
            ),
            "late_launches": (
                "Late",
                "Launches on an empty queue with an unusual latency: above the median and 8 median absolute deviations of "
                "those alike, and above 20 us.",
            ),
            "behind_launches": (
                "Behind unrecorded work",
                "Launches whose work waited for work that was launched while nothing was recorded.",
            ),
            "repeats": ("Repeats", "How often the sequence occurs; no kernel counts in two rows."),
            "sequence_length": ("Length", "Kernels of the sequence."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "launch_api_ns": ("API time", "Time of the launching calls on the host."),
            "launch_api_p50_ns": ("API p50", "Median time of the launching call (linear interpolation)."),
            "launch_api_p95_ns": ("API p95", "95th percentile of it."),
            "launch_queue_ns": (
                "Queue time",
                "From the end of the call until earlier work of the stream, unrecorded work and what the stream waits for "
                "had ended.",
            ),
            "launch_queue_p50_ns": ("Queue p50", "Median queue time (linear interpolation)."),
            "launch_queue_p95_ns": ("Queue p95", "95th percentile of it."),
            "launch_latency_ns": (
                "Latency",
                "From the end of the call, or of the queue time, until the work begins.",
            ),
            "launch_latency_p50_ns": ("Latency p50", "Median latency of launches on an empty queue."),
            "launch_latency_p95_ns": ("Latency p95", "95th percentile of it."),
            "latency_limit_ns": ("Usual up to", "A latency above is late, on an empty queue."),
            "starved_ns": (
                "Device waited",
                "Idle time of the device in gaps that work of these launches ended; the gap before its first work aside.",
            ),
            "capture_ns": (
                "Saved at most",
                "Part of Device waited in launch calls, launch latency and operator dispatch, in gaps that short kernels "
                "ended: an upper bound of what capturing them in a graph saves.",
            ),
            "sequence_ns": ("Kernel time", "Time of the kernels in all repeats."),
            "sequence_gaps_ns": (
                "Gaps inside",
                "Time between the kernels, in all repeats; nothing else runs on the stream.",
            ),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "stream_ratio": (
                "Of the stream",
                "Kernel time and gaps over the time from the stream's first chosen kernel to the end of its last one.",
            ),
        },
    ),
    define("", "code", {"kernel_sequence": ("Kernels", "Kernels that follow each other on the stream.")}),
    define(
        CHOSEN_STEPS,
        "number",
        {
            "depth_mean": (
                "Mean depth",
                "Launches whose call has begun and whose work has not: their mean over time.",
            ),
        },
    ),
    define(CHOSEN_STEPS, "count", {"depth_p95": ("p95 depth", "So many or fewer in 95 % of the time.")}),
    define(
        CHOSEN_STEPS,
        "ratio",
        {
            "starved_ratio": (
                "Starved",
                "Share of the time in which no launch waits: the device runs its last work, or idles.",
            ),
            "shallow_ratio": ("1 to 3", "Share of the time in which 1 to 3 launches wait."),
            "blocked_ratio": (
                "Blocked",
                "Share of the time in which 1,000 launches or more wait: a stream takes about 1,024, then the call waits.",
            ),
        },
    ),
)
