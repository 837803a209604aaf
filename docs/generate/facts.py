"""Facts: flat numbers of reports, for gates and scripts."""

from __future__ import annotations

from collections.abc import Iterator

FACTS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("trace", ("events",), "Recorded events, without allocator events and counters."),
    ("trace", ("cpu_ops", "runtime_calls", "python_functions", "memory_events"), "Events of each type."),
    ("trace", ("partial_overlaps",), "Events that cross another event of their thread."),
    ("trace", ("external_id_disagreements",), "Device events with contradictory launch and external id."),
    ("trace", ("no_operator_ns",), "Device time without an operator."),
    ("overview", ("steps", "step_time_mean_ns"), "Steps and their mean duration."),
    ("overview", ("breakdown.<category>_mean_ns",), "Step breakdown, mean per step."),
    ("overview", ("idle.<cause>_mean_ns",), "Device idle time of the cause, mean over steps and active devices."),
    ("roofline", ("flops", "bytes", "kernel_ns"), "Sums over calls with known FLOPs."),
    ("findings", ("count", "total_low_ns", "total_high_ns"), "Findings and their combined saving per step."),
    ("findings.<rule>", ("saving_low_ns", "saving_high_ns"), "Saving per step; 0 without a finding."),
    (
        "device.<id>",
        (
            "window_ns",
            "busy_ns",
            "compute_ns",
            "exposed_communication_ns",
            "exposed_memcpy_ns",
            "exposed_memset_ns",
            "idle_ns",
        ),
        "Device time. The exposed parts, `.unrecorded_ns` (if any) and `.idle_ns` sum to `.window_ns`.",
    ),
    ("device.<id>", ("communication_ns", "memcpy_ns", "memset_ns"), "Busy time of each type, overlapped or not."),
    ("device.<id>", ("no_operator_ns", "unlaunched"), "Time without an operator; events without a launch."),
    ("device.<id>", ("idle.<cause>_ns",), "Idle time of the cause; the causes sum to idle_ns."),
    ("device.<id>", ("<source>.<part>_mean_ns",), "Step parts on NPUs; source: step (computed) or stated (reported)."),
    ("device.<id>", ("core.<core>_ns", "core_hertz", "low_frequency_ratio"), "Core types and their frequency."),
    ("device.<id>", ("kernels", "memcpys", "memsets"), "Events of each type."),
    (
        "device.<id>",
        ("utilization", "sm_efficiency", "occupancy", "tensor_core_ratio", "matrix_unknown_ratio"),
        "Device ratios; occupancy is achieved_occupancy.",
    ),
    ("launch", ("count", "empty_queue", "short", "late", "api_ns", "starved_ns", "capture_ns"), "Launches and times."),
    (
        "launch",
        ("api_p50_ns", "api_p95_ns", "queue_p50_ns", "queue_p95_ns", "latency_p50_ns", "latency_p95_ns"),
        "Percentiles of launches.",
    ),
    (
        "launch.<id>",
        ("depth_mean", "depth_p95", "starved_ratio", "shallow_ratio", "blocked_ratio"),
        "Launch queue of a device.",
    ),
    ("graphs", ("count", "replays", "device_ns", "share", "with_operator_ns"), "Graphs, replays and their time."),
    (
        "graphs",
        ("by_annotation_ns", "by_capture_ns", "by_capture_trace_ns", "by_eager_ns", "by_graph_ns", "untied_ns"),
        "device_ns by the source of its operators; the parts sum to it.",
    ),
    ("graphs", ("node_gaps_ns", "replay_gaps_ns", "launch_ns"), "Gaps and launch time, summed."),
    ("launches", ("calls", "host_ns", "device_idle_ns"), "Runtime calls, their self time, device idle time inside."),
    ("serving.<mode>", ("steps", "step_time_mean_ns", "step_time_p95_ns"), "Steps of the mode."),
    ("serving", ("tokens_per_second", "decode.host_gap_mean_ns"), "Throughput, and mean served_gap_ns."),
    ("backward", ("calls", "device_ns", "communication_ns", "host_ns", "wait_ns"), "Sums over backward operators."),
    (
        "backward",
        ("tied_sequence", "tied_arrow", "tied_before", "tied_parent", "untied"),
        "Backward operators by the source of their match.",
    ),
    ("recompute", ("calls", "device_ns", "host_ns"), "Recomputations."),
    (
        "parallelism",
        (
            "sharding_ns",
            "sharding_exposed_ns",
            "pipeline_ns",
            "pipeline_exposed_ns",
            "offload_ns",
            "offload_exposed_ns",
            "experts_ns",
            "experts_exposed_ns",
        ),
        "Device time and exposed time of each method.",
    ),
    ("parallelism", ("micro_batches", "expert_imbalance", "dispatches_untold"), "Pipeline and expert numbers."),
    ("modules", ("backward_apart", "backward_apart_untied", "backward_apart_ns"), "Backward work without a module."),
    (
        "compiled",
        (
            "regions",
            "calls",
            "compile_ns",
            "compilations",
            "recompilations",
            "guard_failures",
            "graph_breaks",
            "guard_ns",
        ),
        "Compiled code; 0 without any.",
    ),
    ("operators", ("calls", "names"), "Events and distinct names, without (no operator)."),
    ("kernels", ("calls", "names"), "Kernels and distinct names."),
    ("modules", ("calls", "names"), "Module calls and distinct names."),
    ("phases", ("calls", "names"), "Annotations and phases."),
    ("kernels", ("<class>_ns",), "Kernel time of the class."),
    (
        "operators",
        (
            "no_operator_graph_ns",
            "no_operator_bare_ns",
            "no_operator_before_ns",
            "no_operator_unrecorded_ns",
            "no_operator_outside_ns",
        ),
        "Device time without an operator, by reason.",
    ),
    (
        "memory.<device>",
        ("peak_allocated_bytes", "peak_reserved_bytes", "peak_time_ns", "allocations", "unreleased_bytes"),
        "Allocator peaks and counts; null without totals or addresses.",
    ),
    (
        "memory.<device>.allocator.<allocator>",
        ("peak_allocated_bytes", "peak_active_bytes", "peak_reserved_bytes"),
        "Reported peaks of an allocator.",
    ),
    ("memory.<device>.component.<component>", ("peak_reserved_bytes",), "Reported peak of a software component."),
    (
        "memory.categories",
        (
            "peak_bytes",
            "peak_time_ns",
            "parameter_bytes",
            "optimizer_state_bytes",
            "gradient_bytes",
            "activation_bytes",
            "autograd_detail_bytes",
            "input_bytes",
            "temporary_bytes",
            "unknown_bytes",
        ),
        "Recorded peak and its categories.",
    ),
    ("memory_flow", ("peak_bytes", "peak_time_ns", "peak_tensors", "tensors", "unreleased"), "MegEngine memory flow."),
    (
        "memory.<device>",
        ("allocated_at_end_bytes", "reserved_at_end_bytes", "history_events", "out_of_memory"),
        "Memory snapshots.",
    ),
    ("execution", ("nodes", "tensors"), "Execution traces."),
    ("stacks", ("total_<unit>", "functions", "listed"), "Files of stacks."),
    ("flight", ("calls", "unfinished_calls", "groups", "overwritten_calls"), "Flight recorder dumps."),
    ("cluster", ("ranks", "stages", "slow_rank", "slow_link"), "Vendor analyses of a job."),
    ("distributed", ("world_size", "rank", "calls", "base_time_ns"), "Recorded job size, rank, calls and start time."),
)
"""Prefix, names and definition of the facts of a profile. ``<id>`` and the like stand for any name."""

FACTS_OF_A_JOB: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("distributed", ("workers", "world_size", "absent_ranks"), "Available, all and missing ranks."),
    ("distributed", ("stragglers", "straggler_rank"), "Stragglers of 1 % of the step or more; the costliest."),
    ("distributed", ("lost_ns", "lost_share"), "Cost of the costliest straggler."),
    ("distributed", ("wait_share",), "Wait divided by step time."),
    ("distributed", ("skew_p95_ns", "clock_residual_p95_ns"), "Arrival skew and clock residual."),
    ("distributed", ("matched", "unmatched", "bounded"), "Calls, summed over ranks."),
    ("distributed", ("bus_bandwidth",), "Mean bus bandwidth of the operation with the most bytes."),
)
"""The same of the facts of a job, in ``groups`` of a report."""

_HEAD = """# Facts

`facts` of the [JSON report](../command-line.md) maps these keys to numbers or null.
With selected steps they are about these steps, except for `trace.*`, `distributed.*`, and times and events of devices.
[Metrics](metrics.md) of the same name define them. A view that a profile lacks has no facts, and gates on them fail."""


def patterns() -> set[str]:
    """Returns all keys of the facts of a profile."""
    return {f"{prefix}.{name}" for prefix, names, _ in FACTS for name in names}


def _lines(facts: tuple[tuple[str, tuple[str, ...], str], ...]) -> Iterator[str]:
    yield from ("|keys|definition|", "|---|---|")
    for prefix, names, text in facts:
        yield f"|`{prefix}.{names[0]}`{''.join(f',`.{name}`' for name in names[1:])}|{text}|"


def page() -> str:
    """Returns the page."""
    return "\n".join([_HEAD, "", *_lines(FACTS), "", "## Facts of a job", *_lines(FACTS_OF_A_JOB)])
