"""Metrics of the job tables in profiles."""

from __future__ import annotations

from tb_plugin.analysis.metrics import SHARED, define

REPORTED = "reported, mean of the steps"
EVERY = "all steps"
# reported column -> metric key; some reported names mean something else here
STEP_COLUMNS = {
    "computing_ns": "computing_ns", "overlapped_ns": "overlapped_ns", "communication_ns": "job_communication_ns",
    "exposed_ns": "exposed_ns", "free_ns": "device_free_ns", "preparing_ns": "preparing_ns", "bubble_ns": "bubble_ns",
    "stage_ns": "stage_ns",
}  # fmt: skip
CALL_COLUMNS = {
    "elapse_ns": "elapse_ns", "transit_ns": "transit_ns", "wait_ns": "call_wait_ns",
    "synchronization_ns": "synchronization_ns", "idle_ns": "call_idle_ns",
}  # fmt: skip

_COUNTS = {
    "job_rank": ("Rank", "Rank in the job."),
    "job_ranks": ("Ranks", "Ranks with reported times."),
    "job_stages": ("Stages", "Known pipeline stages."),
    "job_groups": ("Groups", "Process groups that communicate."),
    "link_source": ("From rank", "Sending rank."),
    "link_destination": ("To rank", "Receiving rank; the sender itself for local copies."),
    "compared_count": ("Compared with", "Compared ranks in the stage, or compared links of this type."),
    "dp_index": ("DP", "Reported data-parallel index."),
    "pp_index": ("PP", "Reported pipeline-parallel index."),
    "tp_index": ("TP", "Reported tensor-parallel index."),
}
_TEXTS = {
    "job_row": ("Rank or stage", "A rank, or a stage with the maximum over its ranks."),
    "job_stage": ("Stage", "Ranks of the pipeline stage, reported or inferred from messages."),
    "link_kind": ("Link type", "Reported type of link."),
    "link_part_of": ("Included in", "Link type that includes these bytes and times."),
    "group_name": ("Purpose", "Process group name."),
    "group_kind": (
        "Kind", "collective: all members take part. p2p: members send to each other. stage: pipeline stage.",
    ),
    "members": ("Ranks", "Ranks in the group."),
}  # fmt: skip
_STEP_TIMES = {
    "computing_ns": ("Compute", "Time with compute kernels running."),
    "computing_alone_ns": ("Compute only", "Compute time minus overlapped time."),
    "overlapped_ns": ("Overlapped", "Time when compute and communication overlap."),
    "job_communication_ns": ("Communication", "Time of communication operators, including waits."),
    "exposed_ns": ("Exposed communication", "Communication time not overlapped by compute."),
    "exposed_rest_ns": ("Exposed, not receiving", "Exposed communication minus receive time, at least 0."),
    "exposed_receive_ns": ("Receiving", "Exposed communication minus the part reported as not receiving."),
    "bubble_ns": ("Bubble", "Time receiving from a neighboring pipeline stage."),
    "device_free_ns": ("Free", "Time without compute or communication."),
    "stage_ns": ("Stage time", "Time from first to last device work, minus bubble."),
    "preparing_ns": ("Preparing", "Time from host step start to first device work."),
    "job_step_ns": ("Step time", "Preparing plus compute, exposed communication and free time, averaged over ranks."),
    "median_ns": ("Median", "Median of the compared ranks."),
}
_STEP_SHARES = {
    "exposed_share": ("Exposed communication", "Exposed communication divided by step time."),
    "bubble_share": ("Bubble", "Bubble divided by step time."),
}
_CALL_TIMES = {
    "elapse_ns": ("Elapsed", "Call duration."),
    "transit_ns": ("Transit", "Time during which data moves."),
    "call_wait_ns": ("Wait", "Waiting time, for other ranks or during the transfer."),
    "synchronization_ns": ("Synchronization", "Time waiting for late ranks before the transfer."),
    "wait_rest_ns": ("Wait inside", "Wait time minus synchronization time."),
    "call_idle_ns": ("Idle", "Elapsed time minus transit and wait; negative if both overlap."),
    "link_ns": ("Link time", "Sum of transfer times over all links."),
}
_BANDWIDTHS = {
    "link_bandwidth": ("Bandwidth", "Bytes moved divided by link time."),
    "median_bandwidth": ("Median", "Median bandwidth of the compared links."),
}
_DIFFERENCES = {
    "above_median": ("Above median", "Difference from the median divided by the median."),
    "below_median": ("Below median", "Difference from the median divided by the median."),
    "spread_ratio": ("Spread", "Largest minus smallest value in a stage, divided by the smallest."),
}
METRICS = SHARED.adding(
    define("", "count", _COUNTS),
    define("", "text", _TEXTS),
    define(REPORTED, "ns", _STEP_TIMES),
    define(REPORTED, "ratio", _STEP_SHARES),
    define(EVERY, "count", {"job_calls": ("Calls", "Reported communication calls.")}),
    define(EVERY, "ns", _CALL_TIMES),
    define(EVERY, "bytes", {"link_bytes": ("Moved", "Bytes moved over the links.")}),
    define(EVERY, "bytes_per_second", _BANDWIDTHS),
    define(EVERY, "ratio", _DIFFERENCES),
)
