"""Metrics of reported job tables."""

from __future__ import annotations

from tb_plugin.analysis.metrics import SHARED, define

REPORTED = "as stated, mean of the steps"
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

METRICS = SHARED.adding(
    define("", "count", {
        "job_rank": ("Rank", "Number of the process in the job."),
        "job_ranks": ("Ranks", "Ranks whose times are stated."),
        "job_stages": ("Stages", "Stages of the pipeline, where they are known."),
        "job_groups": ("Groups", "Groups of ranks that communicate."),
        "link_source": ("From rank", "Rank that sends."),
        "link_destination": ("To rank", "Rank that receives; the same one for a copy within a rank."),
        "compared_count": ("Compared with", "Ranks of the stage, or links of the kind, that it is one of."),
        "dp_index": ("DP", "Place in data parallelism, as stated."),
        "pp_index": ("PP", "Place in the pipeline, as stated."),
        "tp_index": ("TP", "Place in tensor parallelism, as stated."),
    }),
    define("", "text", {
        "job_row": ("Of", "A rank, or a stage: the largest of its ranks, each time for itself."),
        "job_stage": ("Stage", "Ranks of the stage of the pipeline, as stated, else by who sends to whom."),
        "link_kind": ("Kind of link", "As stated."),
        "link_part_of": ("Part of", "The kind of link whose bytes and time hold these already."),
        "group_name": ("Use", "What the training calls the group."),
        "group_kind": ("Kind", "collective: all members take part. p2p: members send to each other. stage: of a pipeline."),
        "members": ("Ranks", "Ranks of the job in the group."),
    }),
    define(REPORTED, "ns", {
        "computing_ns": ("Computing", "Kernels that compute run, whatever else does."),
        "computing_alone_ns": ("Computing alone", "Computing less what overlaps with communication."),
        "overlapped_ns": ("Overlapped", "Computing and communication at the same time."),
        "job_communication_ns": ("Communication", "Operations of communication, waiting included."),
        "exposed_ns": ("Exposed communication", "Communication while nothing computes."),
        "exposed_rest_ns": ("Exposed, without receiving", "Exposed communication less receiving, not below 0."),
        "exposed_receive_ns": ("Receiving", "Exposed communication less that without receiving: the bubble, mostly."),
        "bubble_ns": ("Bubble", "Time in receiving from the stage before or behind."),
        "device_free_ns": ("Free", "The device neither computes nor communicates: mostly it waits for the host."),
        "stage_ns": ("Stage time", "From the first work of the device to the last, less the bubble."),
        "preparing_ns": ("Preparing", "From the step's begin on the host to the first work of the device."),
        "job_step_ns": ("Step time", "Preparing, computing, exposed communication and free together, mean of the ranks."),
        "median_ns": ("Median", "Median of the ranks that it is compared with (of an even number their middle)."),
    }),
    define(REPORTED, "ratio", {
        "exposed_share": ("Exposed communication", "Exposed communication of the ranks over their step time."),
        "bubble_share": ("Bubble", "Bubble of the ranks over their step time; part of exposed communication."),
    }),
    define(EVERY, "count", {
        "job_calls": ("Calls", "Calls of communication that are stated."),
    }),
    define(EVERY, "ns", {
        "elapse_ns": ("Elapsed", "Duration of the calls, from begin to end."),
        "transit_ns": ("Transit", "Data move."),
        "call_wait_ns": ("Waiting", "The call waits, for other ranks or within the transfer; synchronization is part of it."),
        "synchronization_ns": ("Synchronization", "Of waiting the time before data move: for ranks that come later."),
        "call_idle_ns": ("Idle", "Elapsed less transit and waiting, as stated; where these overlap it is below 0."),
        "link_ns": ("Link time", "Time of transfers, of links side by side each: their sum may exceed the calls' duration."),
    }),
    define(EVERY, "bytes", {
        "link_bytes": ("Moved", "Bytes that went over links of the kind, or over the link."),
    }),
    define(EVERY, "bytes_per_second", {
        "link_bandwidth": ("Bandwidth", "Moved over link time. 1 GB = 10^9 bytes."),
        "median_bandwidth": ("Median", "Median bandwidth of the links that it is compared with."),
    }),
    define(EVERY, "ratio", {
        "above_median": ("Above the median", "Difference from the median over the median."),
        "below_median": ("Below the median", "Difference from the median over the median."),
        "spread_ratio": ("Spread", "Largest less smallest over smallest, of the ranks of a stage."),
    }),
)  # fmt: skip
