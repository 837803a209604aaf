"""Metrics of the view Distributed."""

from __future__ import annotations

from tb_plugin.analysis.flight_recorder.metrics import METRICS as OF_RECORDERS
from tb_plugin.analysis.job_tables.metrics import METRICS as OF_JOBS
from tb_plugin.analysis.metrics import CHOSEN, SHARED, define
from tb_plugin.views.distributed.bandwidth_metrics import OF_BANDWIDTHS
from tb_plugin.views.distributed.straggler_metrics import OF_STRAGGLERS

_OF_JOBS = (
    "computing_ns", "computing_alone_ns", "overlapped_ns", "job_communication_ns", "exposed_ns", "exposed_rest_ns",
    "exposed_receive_ns", "bubble_ns", "device_free_ns", "stage_ns", "preparing_ns", "job_calls", "elapse_ns",
    "transit_ns", "call_wait_ns", "synchronization_ns", "call_idle_ns", "link_kind", "link_part_of", "link_bytes", "link_ns",
    "link_bandwidth",
)  # fmt: skip
_OF_RECORDERS = ("recorded_calls_count", "last_sequence")
METRICS = SHARED.adding(
    {key: OF_JOBS[key] for key in _OF_JOBS},
    {key: OF_RECORDERS[key] for key in _OF_RECORDERS},
    define(
        "what the recorder kept", "text", {"last_collective": ("Last call", "What the rank called last in the group.")}
    ),
    define(
        "whole traces",
        "bool",
        {"has_trace": ("Trace", "There is a trace of this worker as well.")},
    ),
    define(
        "whole traces",
        "count",
        {
            "called_in_traces": (
                "Also in traces",
                "Collectives of the group that traces hold and the recorder kept as well.",
            ),
            "not_called": (
                "Not called",
                "Collectives that traces hold of the group with a number behind the last one that the recorder kept.",
            ),
        },
    ),
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
            "latency_low_ns": (
                "Including wait, p5",
                "Time in these calls, waiting included, that 5 % of the workers do not exceed.",
            ),
            "latency_median_ns": (
                "Including wait, median",
                "Time in these calls, waiting included, of the median worker.",
            ),
            "latency_high_ns": (
                "Including wait, p95",
                "Time in these calls, waiting included, that 95 % of the workers do not exceed.",
            ),
            "transfer_median_ns": ("Data transfer, median", "Transfer of these calls, of the median worker."),
            "awaited_ns": (
                "Sum of these waits",
                "Waits of all others for that worker in these calls, summed up over workers and steps: of calls at once each "
                "counts. Others waited counts them once.",
            ),
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
            "dimension": (
                "Parallelism",
                "What the group divides, by its description: tensor, pipeline, data, expert or context, or several of them. "
                "Empty where the description names none.",
            ),
            "first_ranks": ("First", "Ranks of the first group of this kind."),
            "last_ranks": ("Last", "Ranks of the last group of this kind."),
            "group_shape": (
                "Pattern",
                "Which ranks the group has: all, neighbours, or every n-th. Empty where they follow no rule or are unknown.",
            ),
            "node": ("Node", "Host that the process ran on."),
            "nodes": ("Nodes", "Hosts of the ranks that meet."),
            "process": ("Process", "Rank where recorded, else the worker."),
            "match_kind": (
                "Matched by",
                "number: as recorded. inferred number: one that was left out, or counts from elsewhere. order: place among "
                "the calls of the group. ends: place among the transfers between both ranks.",
            ),
            "inferred_group": (
                "Inferred group",
                "Group of a call that states none: all ranks are here, and just the ranks of this group have such calls.",
            ),
            "timing": (
                "Timing",
                "measured: all ranks of the group are here. bound: one is missing, waiting is at least and transfer at most "
                "this. estimated: a worker lacks the call, transfer is the median of others like it.",
            ),
            "outlying": (
                "Stands out",
                "Of what a rank does while the others wait for it: what takes longer than on the median of all ranks. The "
                "rest of the step is named with the cause of the lateness, where that is part of it.",
            ),
            "pipeline_stage": ("Stage", "Stage of the pipeline, as messages between ranks tell."),
            "stage_ranks": ("Ranks", "Ranks of the job that are of the stage."),
            "awaited_worker": (
                "Most waited for",
                "The worker that the others waited for longest in these calls: it arrived last. Null where nobody waited. "
                "Where most of that is no fault of its own, Held up by names who is to blame.",
            ),
            "last_worker": ("Last", "The worker that arrived last: its call is the shortest, it waits for nobody."),
            "last_arrived": ("Last by clocks", "The worker whose call began last by corrected clocks."),
            "arrival": (
                "Arrival",
                "known, or why nobody knows who came when. below the residual: all came closer together than clocks tell; "
                "recording begins later: the first collective of a recording that others' precede by more than clocks may be "
                "wrong, which is no lateness; "
                "clocks unknown; alone.",
            ),
            "clock_how": (
                "Clock",
                "What ends of collectives tell of it: offset and drift, offset alone (too few, or too close together), or "
                "nothing (unknown: no three collectives that all ranks leave together).",
            ),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "messages": (
                "Messages",
                "Sends, or parts of an all-to-all, from one rank to another, whose size is known.",
            ),
            "differing_messages": ("Sizes differ", "Messages of which both ends are here and state different sizes."),
            "call": ("Call", "Number of the call in order of time, of its worker."),
            "event": ("Event", "Number of the event in order of time, as the timeline of its worker knows it."),
            "elements": (
                "Elements",
                "Elements of the larger buffer where the two differ by the group's size; of all-to-alls what the rank gives.",
            ),
            "bounded": (
                "Bounds",
                "Matched calls that a rank of their group is missing from, or may be, where they state none. It may have "
                "arrived later than those here, so waiting is at least and transfer at most what stands there.",
            ),
            "inferred_calls": (
                "Inferred groups",
                "Calls that state no group, and of which the ranks that have them tell it.",
            ),
            "estimated": (
                "Estimated",
                "Matched calls that a worker lacks and that are longer than usual elsewhere, as if it had arrived last: "
                "transfer is the median of the same collective where nobody lacks it.",
            ),
            "clock_anchors": (
                "Anchors",
                "Ends that the clock was compared at, of collectives that all ranks leave together: all_reduce, all_gather, "
                "reduce_scatter, all_to_all, barrier.",
            ),
            "clock_aside": (
                "Set aside",
                "Anchors more than 6 x 1.4826 times the worker's median distance off; they are in no residual.",
            ),
            "clocks_rough": ("Rough clocks", "Workers whose residual is larger than all clocks are apart."),
            "clocks_unknown": ("Unknown clocks", "Workers whose clock cannot be compared with those of most others."),
            "arrivals": ("Collectives", "Collectives of which clocks tell something."),
            "arrivals_known": (
                "Arrivals known",
                "Calls of collectives whose ranks came further apart than clocks may be wrong.",
            ),
            "arrivals_suppressed": ("Too close", "Those whose ranks came closer together than clocks can tell."),
            "arrivals_later": ("Recorded later", "First ones of recordings that others' precede: nobody's lateness."),
            "clock_set": (
                "Compared in",
                "Clocks with the same number are compared with each other, if only by way of others; 0 is the largest set.",
            ),
            "match": ("Match", "Number of the collective that calls of several workers are."),
            "matched_workers": ("Workers", "Workers on which the collective was found."),
            "matched": ("Matched", "Calls that were found on at least one other worker as well."),
            "unmatched": (
                "Unmatched",
                "Calls, but of groups of one rank, that no other worker has; they are in no wait, transfer or bandwidth.",
            ),
            "arrived_last": (
                "Arrived last",
                "Matched collectives that waited for this worker; of a straggler those of its group.",
            ),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "issued_ns": ("Issued", "Begin of the call on the host that launched it."),
            "needed_ns": ("Needed", "Begin of the first call on the host that awaits it by its group and number."),
            "before_ns": (
                "Before",
                "From the end of all earlier calls of the group (of its first one from the begin of the step) to the start.",
            ),
            "before_compute_ns": ("Computing before", "Part of the time before in which a kernel computes."),
            "before_communication_ns": (
                "Communication before",
                "Part of the time before in which nothing computes and another group communicates.",
            ),
            "before_copy_ns": (
                "Copies before",
                "Part of the time before in which a device does nothing but copy or set.",
            ),
            "before_input_ns": (
                "Input before",
                "Part of the time before in which no device works, and data are loaded or a batch is awaited.",
            ),
            "before_host_ns": (
                "Host before",
                "Part of the time before in which no device works because the host is late.",
            ),
            "before_idle_ns": (
                "Idle before",
                "The rest of the time before: no device works, and not because of the host.",
            ),
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
            "lateness_ns": (
                "Lateness",
                "Begin of the call by corrected clocks less the median of its collective; none below the clock's residual.",
            ),
            "arrival_skew_ns": (
                "Arrival skew",
                "From the first to the last begin of the collective, by corrected clocks; none below their residuals.",
            ),
            "arrival_wait_ns": (
                "Wait by clocks",
                "From the call's begin to the last one of its collective, by corrected clocks; none below their residuals.",
            ),
            "arrival_transfer_ns": (
                "Transfer by clocks",
                "From the last begin to the last end of the collective, by corrected clocks; none below the residual.",
            ),
            "mean_arrival_transfer_ns": (
                "Mean transfer by clocks",
                "Mean of the time from last begin to last end, by corrected clocks, of the collectives where they can tell.",
            ),
            "clock_offset_ns": (
                "Offset",
                "To add to the worker's clock when its trace begins; the median worker has 0.",
            ),
            "clock_range_ns": ("Apart", "From the smallest to the largest offset of the clocks that are compared."),
            "clock_residual_ns": (
                "Residual",
                "95 of 100 anchors end no further than this from the median end of their collective, by corrected clocks.",
            ),
            "skew_p95_ns": (
                "Skew, 95 %",
                "Arrival skew that 95 of 100 collectives stay below, of those where clocks can tell.",
            ),
            "clock_residual_p95_ns": (
                "Residual, 95 %",
                "95 of 100 workers whose clock is known have no larger residual.",
            ),
            "trace_begins_ns": ("Begins", "When the trace begins by corrected clocks, after the first one that does."),
            "latency_ns": (
                "Latency",
                "Length of the union of the calls, from begin to end, waiting included. Of a worker also calls outside of "
                "steps, unless steps are chosen.",
            ),
            "mean_latency_ns": ("Mean latency", "Latency over calls."),
            "mean_transfer_ns": ("Mean transfer", "Data transfer over matched calls."),
            "caused_step_ns": (
                "Others waited a step",
                "How long the other workers waited for this one, over the chosen steps of the job, as what it costs is.",
            ),
            "outlying_ns": ("Its own", "What stands out of the rank, a step."),
            "outlying_usual_ns": ("Median", "The same on the median of all ranks, a step."),
            "stage_receiving_ns": (
                "Receiving, at most",
                "Time in calls that receive from another stage, as far as nothing hides communication: wait and transfer.",
            ),
            "stage_communication_ns": ("Other communication", "Communication that nothing hides, less receiving."),
            "blocked_ns": (
                "Blocked",
                "Time of the call in which its worker computes nothing, without what belongs to a call that began later (of "
                "two at once the shorter).",
            ),
            "caused_wait_ns": (
                "Others waited",
                "How long the other workers waited for this one, whoever held it up: of each worker and step the length of "
                "the union, summed up over all workers and steps.",
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
            "traffic_bytes": ("Sent", "Bytes of the messages from one rank to another, as the sender states them."),
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
    *OF_BANDWIDTHS,
    define(
        CHOSEN,
        "count",
        {
            "calls_least": ("Least calls", "Calls of the worker that calls least often."),
            "calls_most": ("Most calls", "Calls of the worker that calls most often."),
        },
    ),
    define(
        CHOSEN,
        "number",
        {
            "bus_factor": ("Factor", "Of nccl-tests, by collective and group size."),
            "clock_drift_error_ppb": (
                "Error of drift (ppb)",
                "One standard error of the drift: how far it may be carried.",
            ),
            "clock_drift_ppb": (
                "Drift (ppb)",
                "To add for each second since the trace began, nanoseconds; the median worker has 0.",
            ),
        },
    ),
    define(
        CHOSEN,
        "bool",
        {
            "is_asked": ("Asked about", "The call whose partners these are."),
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
            "wait_share": ("Waiting", "Synchronizing in steps over the duration of the steps, all workers together."),
            "last_share": (
                "Arrives last",
                "Share of the matched collectives it takes part in that waited for this worker: of all, or, where a group is "
                "named, of that group's.",
            ),
        },
    ),
    *OF_STRAGGLERS,
)
