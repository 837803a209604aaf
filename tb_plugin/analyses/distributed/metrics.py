"""The metrics of this view alone: what a job waits for and sends."""

from __future__ import annotations

from tb_plugin.analyses.jobs.metrics import METRICS as OF_JOBS
from tb_plugin.analyses.metrics import CHOSEN, SHARED, define

_OF_JOBS = (
    "computing_ns", "computing_alone_ns", "overlapped_ns", "job_communication_ns", "exposed_ns", "exposed_rest_ns",
    "exposed_receive_ns", "bubble_ns", "device_free_ns", "stage_ns", "preparing_ns", "job_calls", "elapse_ns",
    "transit_ns", "call_wait_ns", "synchronization_ns", "call_idle_ns", "link_kind", "link_part_of", "link_bytes", "link_ns",
    "link_bandwidth",
)  # fmt: skip
"""What profiles state of ranks, as wherever it is shown."""
METRICS = SHARED.adding(
    {key: OF_JOBS[key] for key in _OF_JOBS},
    define(
        "",
        "text",
        {
            "link_from": ("From", "Rank that the data come from; a place in a group where nobody says whose it is."),
            "link_to": ("To", "Rank that the data go to; a place in a group where nobody says whose it is."),
            "link_group": ("Group", "The group that the calls were made in: its name, else the end of its number."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "wait_rest_ns": ("Waiting within", "Waiting less synchronization: between the parts of a transfer."),
            "mean_elapse_ns": ("Mean elapsed", "Elapsed over calls."),
            "mean_transit_ns": ("Mean transit", "Transit over calls."),
        },
    ),
    define(CHOSEN, "bytes", {"mean_link_bytes": ("Mean moved", "Moved over calls.")}),
    define(
        "",
        "count",
        {"sum_row": ("Row", "Number of a row of sums that a profile states, before ranks are laid side by side.")},
    ),
    define(CHOSEN, "count", {"packets": ("Packets", "Packets in which data moved over links of the kind.")}),
    define(
        CHOSEN,
        "ratio",
        {"large_share": ("Large packets", "Share of the packets that are large ones, as the profile draws the line.")},
    ),
    define(
        "",
        "text",
        {
            "node": ("Node", "Host that the process ran on."),
            "process": ("Process", "Rank where recorded, else the worker."),
            "timing": (
                "Timing",
                "measured: all ranks of the group are here. bound: one is missing, waiting is at least and transfer at most "
                "this. estimated: a worker lacks the call, transfer is the median of others like it.",
            ),
            "outlying": (
                "Stands out",
                "Of what a rank does while the others wait for it: what takes longer than on the median of all ranks.",
            ),
            "pipeline_stage": ("Stage", "Stage of the pipeline, as messages between ranks tell."),
            "stage_ranks": ("Ranks", "Ranks of the job that are of the stage."),
            "last_worker": ("Last", "The worker that arrived last: its call is the shortest, it waits for nobody."),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "call": ("Call", "Number of the call in order of time, of its worker."),
            "elements": ("Elements", "Elements of the larger buffer where the two differ by the group's size."),
            "bounded": (
                "Bounds",
                "Matched calls that a rank of their group is missing from. It may have arrived later than those here, so "
                "waiting is at least and transfer at most what stands there.",
            ),
            "estimated": (
                "Estimated",
                "Matched calls that a worker lacks and that are longer than usual elsewhere, as if it had arrived last: "
                "transfer is the median of the same collective where nobody lacks it.",
            ),
            "match": ("Match", "Number of the collective that calls of several workers are."),
            "matched_workers": ("Workers", "Workers on which the collective was found."),
            "matched": ("Matched", "Calls that were found on at least one other worker as well."),
            "unmatched": (
                "Unmatched",
                "Calls, but of groups of one rank, that no other worker has; they are in no wait, transfer or bandwidth.",
            ),
            "arrived_last": ("Arrived last", "Matched collectives that waited for this worker."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "step_other_ns": ("Other", "The rest of the step: no compute, and no communication that nothing hides."),
            "wait_ns": (
                "Synchronizing",
                "Communication less transfer: waiting inside a collective for the worker that arrives last.",
            ),
            "transfer_ns": (
                "Data transfer",
                "Of a collective the duration on the worker that arrives last, at the end of each call; "
                "of several the length of the union.",
            ),
            "latency_ns": ("Latency", "Length of the union of the calls, from begin to end, waiting included."),
            "mean_latency_ns": ("Mean latency", "Latency over calls."),
            "mean_transfer_ns": ("Mean transfer", "Data transfer over matched calls."),
            "caused_step_ns": (
                "Others waited a step",
                "How long the other workers waited for this one, over its steps.",
            ),
            "outlying_ns": ("Its own", "What stands out of the rank, a step."),
            "outlying_usual_ns": ("Median", "The same on the median of all ranks, a step."),
            "stage_receiving_ns": (
                "Receiving, at most",
                "Time in calls that receive from another stage, as far as nothing hides communication: wait and transfer.",
            ),
            "stage_communication_ns": ("Other communication", "Communication that nothing hides, less receiving."),
            "caused_wait_ns": (
                "Others waited",
                "How long the other workers waited for this one: of each worker and step the length of the union, summed up.",
            ),
        },
    ),
    define(
        "one step",
        "ns",
        {
            "rank_min_ns": ("Smallest", "Smallest value of a rank."),
            "rank_p5_ns": ("5 %", "The value that 5 % of the ranks reach at most, that of one of them."),
            "rank_p25_ns": ("25 %", "The value that 25 % of the ranks reach at most, that of one of them."),
            "rank_median_ns": ("Median", "The value that half of the ranks reach at most, that of one of them."),
            "rank_p75_ns": ("75 %", "The value that 75 % of the ranks reach at most, that of one of them."),
            "rank_p95_ns": ("95 %", "The value that 95 % of the ranks reach at most, that of one of them."),
            "rank_max_ns": ("Largest", "Largest value of a rank."),
        },
    ),
    define(
        CHOSEN,
        "bytes",
        {
            "comm_bytes": (
                "Size",
                "Elements times the bytes of their type: S of nccl-tests (all_gather: output, reduce_scatter: input).",
            ),
            "mean_comm_bytes": ("Mean size", "Size over calls."),
        },
    ),
    define(
        CHOSEN,
        "bytes_per_second",
        {
            "algorithm_bandwidth": (
                "Algorithm bandwidth",
                "Size over data transfer, of matched calls. 1 GB = 10^9 bytes.",
            ),
            "bus_bandwidth": ("Bus bandwidth", "Algorithm bandwidth times the factor of nccl-tests."),
        },
    ),
    define(
        CHOSEN,
        "number",
        {
            "bus_factor": ("Factor", "Of nccl-tests, by collective and group size."),
        },
    ),
    define(
        CHOSEN,
        "bool",
        {
            "on_device": ("On device", "A kernel on a device; otherwise a call on the host."),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "outlying_share": ("More by", "What stands out of the rank less that of the median, over it."),
            "stage_bubble_share": (
                "Bubble, at most",
                "Receiving and the time in which nothing runs, over the steps of the ranks of the stage.",
            ),
            "wait_share": ("Waiting", "Synchronizing over the duration of the steps, mean of the workers."),
            "last_share": (
                "Arrives last",
                "Share of the matched collectives it takes part in that waited for this worker.",
            ),
        },
    ),
)
