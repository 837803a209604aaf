"""Metrics of launches, queues, kernel sequences and runtime calls."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, CHOSEN_STEPS, P50, P95, SHARED, SUM, define

METRICS = SHARED.adding(
    define(
        CHOSEN,
        "count",
        {
            "launches": ("Launches", "Calls that launch kernels, copies or memsets.", SUM),
            "empty_queue_launches": ("Queue empty", "Launches that find an empty stream queue.", SUM),
            "short_launches": ("Short kernels", "Launch calls that take longer than the launched kernel.", SUM),
            "late_launches": ("Late starts", "Launches on an empty queue with a latency above the usual maximum.", SUM),
            "behind_launches": ("Behind unrecorded work", "Launches queued behind unrecorded work.", SUM),
            "repeats": ("Repeats", "Occurrences of the sequence.", SUM),
            "sequence_length": ("Length", "Kernels per sequence."),
            "launched": ("Launched", "Kernels, copies and memsets launched by the calls.", SUM),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "launch_api_ns": ("API time", "CPU time of the launch calls."),
            "launch_api_p50_ns": ("API P50", P50.format("API time")),
            "launch_api_p95_ns": ("API P95", P95.format("API time")),
            "launch_queue_ns": ("Queue time", "Time from launch call end to the end of earlier work."),
            "launch_queue_p50_ns": ("Queue P50", P50.format("queue time")),
            "launch_queue_p95_ns": ("Queue P95", P95.format("queue time")),
            "launch_latency_ns": ("Latency", "Time from launch call end (or queue end) to work start."),
            "launch_latency_p50_ns": ("Latency P50", P50.format("latency on an empty queue")),
            "launch_latency_p95_ns": ("Latency P95", P95.format("latency on an empty queue")),
            "latency_limit_ns": (
                "Usual latency (max)",
                "Median latency plus 8 median absolute deviations, at least 20 µs.",
            ),
            "starved_ns": (
                "Idle before",
                "Device idle time directly before the launched work, after the first work.",
                SUM,
            ),
            "capture_ns": (
                "Graph saving (max)",
                "Idle time before short kernels, due to launch calls, latency and dispatch.",
                SUM,
            ),
            "device_idle_ns": ("During idle time", "CPU self time of the calls while all streams are idle.", SUM),
            "sequence_ns": ("Kernel time", "Kernel time over all repeats.", SUM),
            "sequence_gaps_ns": ("Gaps inside", "Time between the kernels over all repeats.", SUM),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "stream_ratio": (
                "Share of stream",
                "Kernel time plus gaps, divided by the stream's time from first to last kernel.",
            ),
            "empty_queue_launches_ratio": (
                "Queue empty",
                "Launches that find an empty stream queue, divided by launches.",
            ),
            "short_launches_ratio": (
                "Short kernels",
                "Launches that take longer than their kernel, divided by launches.",
            ),
        },
    ),
    define(
        "",
        "code",
        {
            "kernel_sequence": ("Kernels", "Consecutive kernels on the stream."),
            "caller_phase": ("Phase", "Innermost annotation around the call start, except step annotations."),
            "caller_frame": ("Python line", "Python line of the call, outside the framework if possible."),
        },
    ),
    define(CHOSEN_STEPS, "number", {"depth_mean": ("Mean depth", "Mean launch queue depth over time.")}),
    define(CHOSEN_STEPS, "count", {"depth_p95": ("Depth P95", "95th percentile of launch queue depth over time.")}),
    define(
        CHOSEN_STEPS,
        "ratio",
        {
            "starved_ratio": ("Queue empty", "Share of time with an empty launch queue."),
            "shallow_ratio": ("Depth 1 to 3", "Share of time with 1 to 3 queued launches."),
            "blocked_ratio": ("Queue full", "Share of time with at least 1,000 queued launches."),
        },
    ),
)
