"""Metrics of the Distributed view."""

from __future__ import annotations

from tb_plugin.analysis.communication import MESSAGES
from tb_plugin.analysis.flight_recorder.metrics import METRICS as OF_RECORDERS
from tb_plugin.analysis.job_tables.metrics import METRICS as OF_JOBS
from tb_plugin.analysis.metrics import CHOSEN, SHARED, define

_MEAN = "mean of the selected steps"

_OF_JOBS = (
    "computing_ns", "computing_alone_ns", "overlapped_ns", "job_communication_ns", "exposed_ns", "exposed_rest_ns",
    "exposed_receive_ns", "bubble_ns", "device_free_ns", "stage_ns", "preparing_ns", "job_calls", "elapse_ns",
    "transit_ns", "call_wait_ns", "synchronization_ns", "wait_rest_ns", "call_idle_ns", "link_kind", "link_part_of",
    "link_bytes", "link_ns", "link_bandwidth",
)  # fmt: skip
_OF_RECORDERS = ("recorded_calls_count", "last_sequence")
_TEXTS = {
    "link_from": ("From", "Sending rank, or its position in the group."),
    "link_to": ("To", "Receiving rank, or its position in the group."),
    "link_group": ("Group", "Group name, else the last three characters of its id."),
    "dimension": ("Parallelism", "Parallel dimension in the group's description, such as tensor, pipeline or data."),
    "group_shape": ("Pattern", "Pattern of ranks: all, neighbors or every n-th."),
    "node": ("Node", "Host that runs the process."),
    "nodes": ("Nodes", "Hosts that run the group's ranks."),
    "process": ("Process", "Recorded rank, else the worker name."),
    "match_kind": (
        "Matched by",
        "number: recorded sequence number. order: position among equal calls of the group and step. ends: a message, "
        "matched by sender and receiver.",
    ),
    "inferred_group": ("Inferred group", "Process group inferred from the calling ranks."),
    "timing": ("Timing", "measured: all ranks of the group have the call. bound: a rank lacks the call."),
    "pipeline_stage": ("Stage", "Pipeline stage, inferred from messages between ranks."),
    "stage_ranks": ("Ranks", "Ranks of the stage."),
    "awaited_worker": ("Longest waited for", "Last rank to arrive in the calls with the longest waits."),
    "last_worker": ("Last rank", "Rank with the shortest call, which arrived last."),
    "last_arrived": ("Last by clocks", "Rank with the latest corrected start."),
    "arrival": (
        "Arrival",
        "known: reliable order. below the residual: start times closer than clock accuracy. "
        "recording starts later: late recording. clocks unknown: too few anchors. alone: one rank.",
    ),
    "clock_how": ("Clock", "Fitted clock: offset and drift, offset only, or unknown."),
}
_TEXTS_OF_STRAGGLERS = {
    "late_pattern": (
        "Pattern",
        "persistent: over 60 % of steps. periodic: every k-th step. rotating: ranks take turns. single: one step. "
        "irregular: other steps.",
    ),
    "worst_step": ("Worst step", "Step with the largest cost."),
    "usual_worker": ("Reference rank", "Rank of the group with the median lateness."),
    "late_how": ("Kernel difference", "More calls, longer calls, or a slow device (all kernels slower)."),
    "held_up_by": ("Delayed by", "Rank that causes most of this rank's lateness."),
    "held_up_in": ("Delayed in", "Group in which the rank communicates slowly."),
    "late_cause": ("Cause", "Activity with the largest excess over other ranks, before late arrivals."),
}
_COUNTS = {
    "stragglers": ("Stragglers", "Ranks that are significantly late."),
    "straggler_rank": ("Worst straggler", "Rank with the largest cost; repeatedly late ranks first."),
    "absent_ranks": ("Missing ranks", "Ranks of the job without a trace."),
    "late_steps": ("Late steps", "Steps with a significant cost (at least 1 %)."),
    "late_every": ("Period", "Steps from one late step to the next."),
    "job_steps": ("Steps", "Analyzed steps."),
    "collectives_met": (
        "Collectives",
        "Matched collectives of the rank in the group, excluding point-to-point calls.",
    ),
    "late_calls": ("Kernel calls", "Calls of the kernel in late steps."),
    "messages": ("Messages", "Messages of known size between two ranks."),
    "call": ("Call", "Call number on its rank, in time order."),
    "event": ("Event", "Event number on its rank's timeline."),
    "elements": ("Elements", "Buffer elements used to compute the collective's size."),
    "bounded": ("Bounds", "Matched calls with missing ranks."),
    "clock_anchors": ("Anchors", "Synchronizing collectives whose ends are used in the clock fit."),
    "clock_aside": ("Rejected anchors", "Anchors that deviate by more than 6 × 1.4826 median absolute deviations."),
    "clocks_unknown": ("Unknown clocks", "Ranks whose clock is not comparable with most other clocks."),
    "arrivals": ("Collectives", "Collectives with clock information."),
    "arrivals_known": ("Arrivals known", "Calls with arrivals further apart than the clock accuracy."),
    "arrivals_suppressed": ("Arrivals too close", "Calls with arrivals closer than the clock accuracy."),
    "arrivals_later": ("Late recordings", "First calls of recordings that started late."),
    "clock_set": ("Clock set", "Ranks with comparable clocks share a number; 0 is the largest set."),
    "match": ("Match", "Number of the collective across ranks."),
    "matched_workers": ("Ranks", "Ranks with this collective."),
    "matched": ("Matched", "Calls matched with another rank."),
    "unmatched": ("Unmatched", "Calls without a match, excluded from wait, transfer and bandwidth."),
    "arrived_last": ("Arrived last", "Matched collectives where this rank arrived last."),
    "packets": ("Packets", "Data packets sent over these links."),
    "calls_least": ("Fewest calls", "Fewest calls on any rank."),
    "calls_most": ("Most calls", "Most calls on any rank."),
    "met": ("Collectives", "Collectives with all ranks loaded, a known size and a known factor."),
    "fit_sizes": ("Sizes", "Distinct sizes in the fit."),
    "node_count": ("Nodes", "Nodes of the group."),
    "same_groups": ("Groups", "Process groups of this kind."),
    "same_devices": ("Devices", "Devices of this kind."),
    "node_sets": ("Compared", "Node sets with the same collectives and number of nodes."),
}
_MEAN_TIMES = {
    "job_path_ns": ("On the path", "Time of the rank on the critical path of the job."),
    "job_path_device_ns": ("Device work", "Device work on the path, without collectives."),
    "job_path_host_ns": ("CPU", "CPU time and launches on the path."),
    "job_path_communication_ns": ("Communication", "Transfer of matched collectives, duration of others."),
    "job_path_lag_ns": ("Not explained", "Time that no recorded work explains."),
    "lost_ns": ("Cost", "Step time saved if this rank were as fast as the next slowest."),
    "late_cause_ns": ("Excess", "Excess of this activity over other ranks, before late arrivals."),
    "late_kernel_ns": ("Kernel excess", "Kernel time minus the median of other ranks, in late steps."),
    "compute_spread_ns": ("Compute spread", "Longest compute time minus the mean over ranks, per step."),
    **{
        f"more_{key}_ns": (f"{title} excess", f"{activity} before late arrivals, minus the ranks' median.")
        for key, title, activity in (
            ("compute", "Compute", "Compute"), ("communication", "Communication", "Communication in other groups"),
            ("copy", "Copy", "Exposed copy time"), ("input", "Data loading", "Idle time during data loading"),
            ("host", "Host", "Idle time due to the host"), ("idle", "Idle", "Idle time due to other causes"),
        )
    },
}  # fmt: skip
_MEAN_RATIOS = {
    "lost_share": ("Cost share", "Cost divided by mean step time."),
    "compute_spread_share": ("Compute spread share", "Compute spread divided by mean step time."),
}
_TIMES = {
    "late_median_ns": (
        "Median lateness", "Median over collectives: arrival minus the median arrival of all ranks but the last.",
    ),
    "latency_low_ns": ("Total per rank P5", "5th percentile over ranks of communication time in all steps, with wait."),
    "latency_median_ns": ("Total per rank P50", "Median over ranks of communication time in all steps, with wait."),
    "latency_high_ns": ("Total per rank P95", "95th percentile over ranks of communication time in all steps, with wait."),
    "transfer_median_ns": ("Transfer P50", "Median transfer time over ranks."),
    "awaited_ns": ("Sum of waits", "Time that other ranks wait for this rank; concurrent waits add up."),
    "mean_elapse_ns": ("Mean elapsed", "Elapsed time divided by calls."),
    "mean_transit_ns": ("Mean transit", "Transit time divided by calls."),
    "issued_ns": ("Issued", "Start of the launching call on the host."),
    "before_ns": ("Before", "Time from the group's previous call (or step start) to this call."),
    "before_compute_ns": ("Compute before", "Compute time before the call."),
    "before_communication_ns": ("Communication before", "Time before the call when only another group communicates."),
    "before_copy_ns": ("Copies before", "Time before the call when only copies run."),
    "before_input_ns": ("Data loading before", "Idle time before the call, due to data loading."),
    "before_host_ns": ("Host before", "Idle time before the call, due to the host."),
    "before_idle_ns": ("Idle before", "Idle time before the call, due to other causes."),
    "step_other_ns": ("Not compute or communication", "Step time minus compute and exposed communication."),
    "wait_ns": ("Wait", "Communication minus transfer: time waiting for the last rank."),
    "transfer_ns": ("Transfer", "Collective duration on the last rank to arrive; overlapping calls count once."),
    "lateness_ns": ("Lateness", "Corrected start minus the median start of the collective."),
    "arrival_skew_ns": ("Arrival skew", "Time from first to last corrected start."),
    "clock_offset_ns": ("Offset", "Clock correction at trace start, relative to the median rank."),
    "clock_range_ns": ("Clock range", "Largest minus smallest offset of comparable clocks."),
    "clock_residual_ns": ("Residual", "95th percentile of anchor distances from the median end."),
    "skew_p95_ns": ("Skew P95", "95th percentile of arrival skew over collectives."),
    "clock_residual_p95_ns": ("Residual P95", "95th percentile of clock residuals over ranks."),
    "trace_begins_ns": ("Starts", "Corrected trace start, measured from the first trace."),
    "latency_ns": ("Communication", "Time in communication calls, including wait; overlapping calls count once."),
    "mean_latency_ns": ("Mean communication", "Communication divided by calls."),
    "mean_transfer_ns": ("Mean transfer", "Transfer time divided by matched calls."),
    "caused_step_ns": ("Caused wait per step", "Caused wait divided by the job's steps."),
    "stage_receiving_ns": ("Receiving (max)", "Exposed communication in calls that receive, including wait."),
    "stage_communication_ns": ("Other communication", "Exposed communication minus receive time."),
    "blocked_ns": ("Blocked", "Call time while neither compute nor a later call runs."),
    "caused_wait_ns": ("Caused wait", "Time that other ranks wait for this rank; overlapping waits count once."),
    "fit_latency_ns": ("Fitted latency", "Intercept of the fit: transfer time at size 0."),
    "median_transfer_ns": ("Median transfer", "Median transfer time of these collectives."),
}  # fmt: skip
_STEP_TIMES = {
    "rank_min_ns": ("Min", "Smallest value over ranks."),
    "rank_p5_ns": ("P5", "5th percentile over ranks."),
    "rank_p25_ns": ("P25", "25th percentile over ranks."),
    "rank_median_ns": ("P50", "Median over ranks."),
    "rank_p75_ns": ("P75", "75th percentile over ranks."),
    "rank_p95_ns": ("P95", "95th percentile over ranks."),
    "rank_max_ns": ("Max", "Largest value over ranks."),
}
_BYTES = {
    "mean_link_bytes": ("Mean moved", "Bytes moved divided by calls."),
    "traffic_bytes": ("Sent", "Bytes sent between two ranks, according to the sender's trace."),
    "comm_bytes": ("Size", "Element count multiplied by element size, as in nccl-tests."),
    "mean_comm_bytes": ("Mean size", "Size divided by calls."),
}
_BANDWIDTHS = {
    "algorithm_bandwidth": ("Algorithm bandwidth", "Size divided by transfer time, over matched calls."),
    "bus_bandwidth": ("Bus bandwidth", "Algorithm bandwidth multiplied by the nccl-tests factor."),
    "typical_bus_bandwidth": (
        "Bus bandwidth",
        "Size multiplied by the nccl-tests factor, divided by median transfer time.",
    ),
    "fitted_bus_bandwidth": ("Fit", "Bus bandwidth from the fitted transfer time."),
    "fit_bandwidth": ("Fitted bandwidth", "Slope of the fit: bus bandwidth of large messages."),
    "link_peak": ("Link peak", "Data-sheet bandwidth of a device's links, in one direction."),
}
_RATIOS = {
    "late_cause_share": ("Share of excess", "Excess of this activity divided by all excess."),
    "stage_bubble_share": ("Bubble (max)", "Receive time plus idle time, divided by the stage's step time."),
    "wait_share": ("Wait share", "Wait time in steps divided by step time, over all ranks."),
    "last_share": ("Last share", "Share of the rank's matched collectives where it arrived last."),
    "large_share": ("Large packets", "Reported share of large packets."),
    "fit_deviation": ("Fit deviation", "Relative deviation from the fit: 75th percentile over sizes."),
    "link_share": ("Share of link peak", "Bus bandwidth divided by link peak, for groups within a node."),
}
_NUMBERS = {
    "late_factor": ("Factor", "Kernel time per call divided by that of other ranks."),
    "usual_calls": ("Calls on other ranks", "Median kernel calls of the other ranks."),
    "bus_factor": ("Factor", "nccl-tests factor for the collective and group size."),
    "clock_drift_ppb": ("Drift (ppb)", "Clock correction per second, relative to the median rank."),
    "slowdown": ("Slowdown", "Median transfer time divided by the median over all node sets."),
}
_FLAGS = {
    "stands_out": ("Straggler", "The rank is significantly late; only its costliest group counts."),
    "is_asked": ("Selected", "The call is selected."),
    "on_device": ("On device", "The call is a device kernel, not a host call."),
}
_OF_TRACES = {
    "called_in_traces": ("Also in traces", "Flight recorder collectives that traces also contain."),
    "not_called": ("Not called", "Collectives in the trace after the last one in the flight recorder."),
}
METRICS = SHARED.adding(
    MESSAGES,
    {key: OF_JOBS[key] for key in _OF_JOBS},
    {key: OF_RECORDERS[key] for key in _OF_RECORDERS},
    define("what the recorder kept", "text", {"last_collective": ("Last call", "Last call of the rank in the group.")}),
    define("whole traces", "bool", {"has_trace": ("Trace", "A trace of this rank is available.")}),
    define("whole traces", "count", _OF_TRACES),
    define("", "count", {"sum_row": ("Row", "Row number in the reported sums.")}),
    define("", "text", _TEXTS),
    define(CHOSEN, "count", _COUNTS),
    define(CHOSEN, "ns", _TIMES),
    define("one step", "ns", _STEP_TIMES),
    define(CHOSEN, "bytes", _BYTES),
    define(CHOSEN, "bytes_per_second", _BANDWIDTHS),
    define(CHOSEN, "ratio", _RATIOS),
    define(CHOSEN, "number", _NUMBERS),
    define(CHOSEN, "bool", _FLAGS),
    define(CHOSEN, "text", _TEXTS_OF_STRAGGLERS),
    define(
        CHOSEN, "code", {"late_kernel": ("Kernel", "Kernel (or operator) with the largest excess over other ranks.")}
    ),
    define(_MEAN, "ns", _MEAN_TIMES),
    define(_MEAN, "ratio", _MEAN_RATIOS),
)
