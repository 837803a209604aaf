"""Metrics of flight recorders."""

from __future__ import annotations

from tb_plugin.analysis.metrics import SHARED

RECORDED_CALLS = "recorded calls"

METRICS = SHARED.defining(
    {
        (RECORDED_CALLS, "code"): {
            "call_input_sizes": ("Input sizes", "Recorded input tensor sizes."),
            "call_output_sizes": ("Output sizes", "Recorded output tensor sizes."),
            "call_types": ("Types", "Input element types, plus output types if different."),
            "call_line": ("Line", "Innermost stack frame outside the standard library and packages."),
            "recorded_stack": ("Call stack", "Recorded frames, innermost first."),
            "other_call": ("Other call", "Operation, sizes and types on a rank that differs."),
        },
        (RECORDED_CALLS, "text"): {
            "call_state": ("State", "Recorded state: scheduled, started or completed."),
            "call_verdict": (
                "Across ranks",
                (
                    "not called: missing on a rank. differs: unequal operations, sizes or types. unfinished: "
                    "incomplete on some ranks. finished: complete on all. finished here: complete, but dumps are "
                    "missing."
                ),
            ),
            "call_known_by": (
                "Completion known by",
                "Evidence of completion: recorded state, removal, or a later completed call.",
            ),
            "differs_in": ("Differs in", "Differing fields: operation, sizes, types or state."),
            "missing_names": ("Not called by", "Ranks that have a dump but did not make the call."),
            "absent_names": ("Missing dumps", "Group members without a dump."),
            "differing_names": ("Differs on", "Ranks that differ from the majority."),
        },
        (RECORDED_CALLS, "bool"): {
            "call_finished": ("Completed", "Completed, by its state, removal or a later completed call.")
        },
        (RECORDED_CALLS, "count"): {
            "record_number": ("Record", "Record number, from 0; the ring buffer drops old records."),
            "p2p_number": ("Point-to-point", "Recorded sequence number of the point-to-point call."),
            "call_timeout_ms": ("Timeout (ms)", "Process group timeout."),
            "call_part": ("Part", "Index among calls with the same number, from 0."),
            "recorded_calls_count": ("Calls", "Recorded collectives and point-to-point calls."),
            "unfinished_calls": ("Incomplete", "Calls that did not complete."),
            "overwritten_calls": ("Overwritten", "Records overwritten before the first available record."),
            "groups_count": ("Groups", "Process groups with calls."),
            "first_sequence": ("First recorded", "Sequence number of the group's first recorded collective."),
            "last_sequence": ("Last called", "Sequence number of the last called collective."),
            "finished_sequence": ("Last completed", "Sequence number of the last completed collective."),
            "behind_sequences": ("Lag", "Last sequence number on any rank minus that of this rank."),
            "ranks_called": ("Called by", "Ranks that made the call."),
            "ranks_finished": ("Completed by", "Ranks that completed the call."),
            "ranks_waiting": ("Waiting", "Ranks that made the call but did not complete it."),
            "ranks_missing": ("Not called", "Ranks that have a dump but did not make the call."),
            "ranks_differing": ("Differing", "Ranks that differ from the majority in operation, sizes or types."),
            "ranks_absent": ("Missing dumps", "Ranks of the group without a dump."),
            "matched_count": ("Collectives", "Distinct collectives over all groups."),
            "wrong_collectives": ("Mismatched", "Collectives missing or different on a rank."),
            "unfinished_collectives": ("Incomplete", "Collectives that a rank called but did not complete."),
        },
        (RECORDED_CALLS, "ns"): {
            "call_created_ns": ("Called", "Time of the call, since the rank's first available record."),
            "called_at_ns": ("Called at", "Time of the call since 1970, by the rank's clock."),
            "call_started_ns": ("Seen started", "Time when the recorder first saw the call as started."),
            "call_completed_ns": ("Seen completed", "Time when the recorder first saw the call as completed."),
            "call_duration_ns": (
                "Duration",
                "Reported duration, else time from start (or call) to observed completion.",
            ),
            "first_called_ns": ("First called", "First call time on any rank, since the first of all calls."),
            "arrival_spread_ns": ("Spread", "Time from first to last call, by local clocks."),
        },
    }
)
