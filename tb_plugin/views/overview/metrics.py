"""Metrics of the Overview: steps, devices and the trace."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN_STEPS, FULL_TRACE, P95, STEP, STEPS, define
from tb_plugin.analysis.reported_steps import REPORTED_COMPUTE, REPORTED_STEP
from tb_plugin.rules._base import COMMON as OF_RULES

METRICS = OF_RULES.adding(
    REPORTED_STEP,
    REPORTED_COMPUTE,
    define(
        STEP,
        "ns",
        {
            "kernel_ns": ("Kernel", "Time with a non-communication kernel running."),
            "memcpy_ns": ("Memcpy", "Time with a copy but no kernel running."),
            "memset_ns": ("Memset", "Time with a memset but no kernel or copy running."),
            "runtime_ns": ("Runtime", "Runtime and driver call time in no other category."),
            "dataloader_ns": (
                "Data loading",
                "Data loading not overlapped by device work, communication or runtime calls.",
            ),
            "cpu_ns": ("CPU", "Host operator and annotation time in no other category."),
            "other_ns": ("Other", "Step time in no other category."),
        },
    ),
    define(
        FULL_TRACE,
        "ns",
        {
            "exposed_memcpy_ns": ("Exposed memcpy", "Copy time not overlapped by compute or communication."),
            "exposed_memset_ns": ("Exposed memset", "Memset time while nothing else runs."),
            "window_ns": ("Window", "Time from the start of device work to its end."),
            "no_operator_ns": ("Time without operator", "Device time without a recorded operator."),
            "window_start_ns": ("Window from", "Start of the opened window, since trace start."),
            "window_end_ns": ("Window to", "End of the opened window, since trace start."),
            "outside_ns": ("Recorded time", "Trace length minus step time."),
            "outside_device_ns": ("Device busy", "Time outside steps while at least one device is busy."),
            "device_lag_ns": (
                "Device starts after host",
                "First device work start minus first host operator or call start.",
            ),
            "device_tail_ns": ("Device ends after host", "Last device work end minus last host operator or call end."),
            "trace_ns": ("Trace length", "Time from first event start to last event end."),
        },
    ),
    define(
        FULL_TRACE,
        "ns",
        {
            "in_ranges_ns": ("In ranges", "Time in ranges, summed over threads."),
            "busiest_ns": ("Self time", "Self time of ranges with this name."),
            "longest_ns": ("Total time", "Total time of ranges with this name."),
            "thread_ranges_ns": ("In ranges", "Time of the thread in ranges."),
            "operation_total_ns": ("Total", "Time of the operation's parts; concurrent parts add up."),
            "operation_max_ns": ("Longest", "Longest part of the operation."),
        },
    ),
    define(
        STEPS,
        "ns",
        {
            "step_time_p95_ns": ("P95", P95.format("step durations")),
            "largest_ns": ("Limiting time", "Time of the limiting part per step."),
            "largest_name_ns": ("Time of this name", "Self time of the name in the limiting part, per step."),
        },
    ),
    define(
        STEPS,
        "ratio",
        {
            "mfu": (
                "MFU",
                "FLOPs of matrix products, convolutions and attention divided by peak rate and step time.",
            ),
            "hfu": ("HFU", "MFU including recomputation."),
            "achieved_occupancy": ("Est. achieved occupancy", "Estimated occupancy, weighted by kernel time."),
            "unexplained_ratio": ("Unexplained time", "Share of step time without device work, operators or calls."),
            "sampled_share": ("Recorded share", "Recorded share of operators or launched kernels."),
            "unknown_share": ("Unknown kernels", "Share of kernel time in unknown kernels."),
            "largest_share": ("Limiting share", "Time of the bottleneck divided by step time."),
        },
    ),
    define(
        FULL_TRACE,
        "ratio",
        {
            "tensor_core_ratio": ("Kernel time on matrix units", "Share of kernel time on matrix units."),
            "linked_ratio": ("Linked to launches", "Share of device events with a recorded launch."),
            "owned_ratio": ("Linked to operators", "Share of device time with an operator."),
            "outside_device_ratio": ("Share of busy time", "Share of device busy time outside steps."),
            "largest_group_ratio": ("Largest event type", "Share of the most frequent event type."),
        },
    ),
    define(
        FULL_TRACE,
        "count",
        {
            "ordinal": ("Number", "Device number in the framework."),
            "lost_events": ("Lost events", "Dropped events plus events with invalid times."),
            "odd_times": (
                "Overlapping events",
                "Partly overlapping host events, plus device events with corrected ends.",
            ),
            "unlaunched": ("Without launch", "Device events without a recorded launch."),
            "window_events": ("Events opened", "Events in the opened window."),
            "trace_events": ("Events of the trace", "Events in the trace file."),
            "ranges": ("Ranges", "Ranges and calls on threads."),
            "range_threads": ("Threads", "Threads with events."),
            "never_ended": ("Open-ended", "Ranges of this name without an end."),
            "async_ranges": ("Asynchronous", "Ranges without a thread."),
            "instants": ("Instants", "Instant events."),
            "trace_steps": ("Steps of the trace", "Recorded steps in the trace file."),
        },
    ),
    define(
        CHOSEN_STEPS,
        "count",
        {
            "findings_dismissed": ("Dismissed", "Findings dismissed in the request."),
            "findings_ignored": ("Ignored by torch_trace_ignore", "Findings ignored by a file of the log directory."),
        },
    ),
    define("", "count", {"sm_count": ("Multiprocessors", "Multiprocessors of the device.")}),
    define(
        "",
        "bytes",
        {
            "peak_memory_bytes": ("Memory needed", "Estimated memory for the full trace."),
            "budget_bytes": ("Memory allowed", "TORCH_TRACE_MEMORY_MB, by default half of the machine's memory."),
        },
    ),
    define(
        STEPS,
        "code",
        {
            "busiest_name": ("Name", "Range name with the most self time."),
            "longest_name": ("Name", "Range name with the most total time."),
            "unread_mark": ("Unknown name", "First unrecognized step name of the server."),
            "held_name": ("Name", "Profiler activity with the longest wait."),
            "largest_name": ("Name", "Name with the most time in the limiting part."),
            "largest_caller": ("Caller", "Operator with the most time in calls of this name."),
            "largest_line": ("Python line", "Python line with the most time in calls of this name."),
        },
    ),
    define(
        STEPS,
        "text",
        {
            "limit": ("Limit", "Limiting factor of the program."),
            "class_mix": ("Kernel time", "Kernel class time divided by non-communication kernel time."),
        },
    ),
    define(
        "",
        "text",
        {
            "first_step": ("First step", "First complete step in the opened window."),
            "last_step": ("Last step", "Last complete step in the opened window."),
            "capture": ("Capture", "Recording that should contain the graph captures."),
        },
    ),
)
