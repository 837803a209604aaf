"""Metrics of flight recorders."""

from __future__ import annotations

from tb_plugin.analysis.metrics import SHARED, define

RECORDED_CALLS = "recorded calls"

METRICS = SHARED.adding(
    define(
        RECORDED_CALLS,
        "code",
        {
            "call_input_sizes": ("Input sizes", "Recorded input tensor sizes."),
            "call_output_sizes": ("Output sizes", "Recorded output tensor sizes."),
            "call_types": ("Types", "Input element types, plus output types if different."),
            "call_line": ("Line", "Innermost stack frame outside the standard library and packages."),
            "recorded_stack": ("Call stack", "Recorded frames, innermost first."),
            "other_call": ("Other call", "Operation, sizes and types on a differing rank."),
        },
    ),
    define(
        RECORDED_CALLS,
        "text",
        {
            "call_state": (
                "State",
                "Recorded state: scheduled, started or completed.",
            ),
            "call_verdict": (
                "Across ranks",
                "not called: missing on a rank. differs: operation, sizes or types differ. unfinished: called by "
                "all, incomplete on some. finished: complete on all. finished here: complete, but dumps are "
                "missing.",
            ),
            "call_known_by": (
                "Completion known by",
                "Recorded state, else removal by the recorder, else a later completed call of the rank.",
            ),
            "differs_in": ("Differs in", "Fields with different values: operation, sizes, types or state."),
            "missing_names": ("Not called by", "Ranks with a dump that did not call it."),
            "absent_names": ("Missing dumps", "Group members without a dump."),
            "differing_names": ("Differs on", "Ranks that differ from the majority."),
        },
    ),
    define(
        RECORDED_CALLS,
        "bool",
        {
            "call_finished": ("Completed", "Completed by its state, its removal or a later completed call."),
        },
    ),
    define(
        RECORDED_CALLS,
        "count",
        {
            "record_number": ("Record", "Record number, from 0; the ring buffer drops old ones."),
            "p2p_number": ("Point-to-point", "Recorded number of the point-to-point call in its group."),
            "call_timeout_ms": ("Timeout (ms)", "Timeout of the process group."),
            "call_part": ("Part", "Index among calls with the same number, from 0."),
            "recorded_calls_count": ("Calls", "Recorded collectives and point-to-point calls."),
            "unfinished_calls": ("Incomplete", "Calls that did not complete."),
            "overwritten_calls": ("Overwritten", "Records overwritten before the first available one."),
            "groups_count": ("Groups", "Process groups with calls."),
            "first_sequence": ("First recorded", "First recorded collective of the group."),
            "last_sequence": ("Last called", "Last called collective of the group."),
            "finished_sequence": ("Last completed", "Last completed collective of the group."),
            "behind_sequences": ("Behind", "Last number on any rank minus the last number here."),
            "ranks_called": ("Called by", "Ranks that called it."),
            "ranks_finished": ("Completed by", "Ranks that completed it."),
            "ranks_waiting": ("Waiting", "Ranks that called it without completing it."),
            "ranks_missing": ("Not called", "Ranks with a dump that did not call it."),
            "ranks_differing": ("Differing", "Ranks that differ from the majority in operation, sizes or types."),
            "ranks_absent": ("Missing dumps", "Listed ranks without a dump."),
            "matched_count": ("Collectives", "Distinct collectives over all groups."),
            "wrong_collectives": ("Mismatched", "Collectives missing or different on a rank."),
            "unfinished_collectives": ("Incomplete", "Collectives called but not completed by a rank."),
        },
    ),
    define(
        RECORDED_CALLS,
        "ns",
        {
            "call_created_ns": ("Called", "Call time since the first available record of the rank."),
            "called_at_ns": ("Called at", "Call time since 1970, by the clock of its machine."),
            "call_started_ns": ("Seen started", "First poll of the recorder after the start."),
            "call_completed_ns": ("Seen completed", "First poll of the recorder after completion."),
            "call_duration_ns": ("Duration", "Reported duration, else seen started (or called) to seen completed."),
            "first_called_ns": ("First called", "First call on any rank, since the first call of all."),
            "arrival_spread_ns": ("Spread", "First to last call among ranks, by local clocks."),
        },
    ),
)
