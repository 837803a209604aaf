"""Metrics of flight recorders."""

from __future__ import annotations

from tb_plugin.analysis.metrics import SHARED, define

KEPT = "what the recorder kept"

METRICS = SHARED.adding(
    define(
        KEPT,
        "code",
        {
            "call_input_sizes": ("Input sizes", "Sizes of the tensors that go in, as recorded."),
            "call_output_sizes": ("Output sizes", "Sizes of the tensors that come out, as recorded."),
            "call_types": ("Types", "Element types of the tensors that go in; of those that come out where they differ."),
            "call_line": ("Line", "Innermost frame of the call that is no code of the standard library or of a package."),
            "recorded_stack": ("Call stack", "Frames that made the call, innermost first, as recorded."),
            "other_call": ("Other call", "Operation, sizes and types of a rank that called something else than most."),
        },
    ),
    define(
        KEPT,
        "text",
        {
            "call_state": ("State", "As recorded: scheduled, started or completed. Some backends never go beyond scheduled."),
            "call_verdict": (
                "Across ranks",
                "Of the ranks whose dumps are here. not called: a rank of the group did not call it. differs: operation, "
                "sizes or types are not those of most. unfinished: all called it and not all have finished it. finished: "
                "all have. finished here: all have, and there are members of the group without a dump.",
            ),
            "call_known_by": (
                "Known by",
                "What tells that it is finished: its state; else that the recorder let go of it; else that the rank says "
                "it is past that number. Some backends (gloo) leave the state at scheduled.",
            ),
            "differs_in": ("Differs in", "What is not the same on all ranks: operation, sizes, types, state."),
            "missing_names": ("Not called by", "Ranks of the group that did not call it, of those whose dumps are here."),
            "absent_names": ("No dump of", "Members of the group without a dump here: whether they called it nobody knows."),
            "differing_names": ("Differs on", "Ranks whose call is not that of most ranks."),
        },
    ),
    define(KEPT, "bool", {
        "call_finished": ("Finished", "Its state says so, the recorder let go of it, or the rank is past it."),
    }),
    define(
        KEPT,
        "count",
        {
            "record_number": ("Record", "Number of the record, from 0 on. The buffer is a ring: it holds the last ones."),
            "p2p_number": ("Point-to-point", "Number of the point-to-point call in its process group, as recorded."),
            "call_timeout_ms": ("Timeout (ms)", "Milliseconds after which the process group gives up."),
            "call_part": ("Part", "Counts calls that were recorded under one number, from 0 on: coalesced ones are."),
            "recorded_calls_count": ("Calls", "Calls of collectives and between two ranks that the recorder kept."),
            "unfinished_calls": ("Not finished", "Calls that are not finished."),
            "overwritten_calls": ("Overwritten", "Records that the ring had to let go of before the first one that it kept."),
            "groups_count": ("Groups", "Process groups in which there are calls."),
            "first_sequence": ("First kept", "Number of the first collective of the group that the recorder kept."),
            "last_sequence": ("Last called", "Number of the last collective of the group that the rank called."),
            "finished_sequence": ("Last finished", "Number of the last collective of the group that is finished."),
            "behind_sequences": ("Behind", "The last collective that any rank of the group called less the rank's own."),
            "ranks_called": ("Called by", "Ranks that called it."),
            "ranks_finished": ("Finished by", "Ranks on which it is finished."),
            "ranks_waiting": ("Waiting", "Ranks that called it and on which it is not finished."),
            "ranks_missing": ("Not called", "Ranks of the group that did not call it, of those whose dumps are here."),
            "ranks_differing": ("Differing", "Ranks whose operation, sizes or types are not those of most ranks."),
            "ranks_absent": ("Without a dump", "Ranks that a group lists and whose dump is not here."),
            "matched_count": ("Collectives", "Collectives of all groups, each counted once however many ranks called it."),
            "wrong_collectives": ("Not alike", "Collectives that a rank did not call, or not as the others did."),
            "unfinished_collectives": ("Not finished", "Collectives that a rank called and has not finished."),
        },
    ),
    define(
        KEPT,
        "ns",
        {
            "call_created_ns": ("Called", "When it was called, from the first kept record of the rank on."),
            "called_at_ns": ("Called at", "When it was called, since 1970 by the clock of its machine."),
            "call_started_ns": ("Seen started", "When the recorder saw that it had started; it looks now and then."),
            "call_completed_ns": ("Seen finished", "When the recorder saw that it was finished; it looks now and then."),
            "call_duration_ns": (
                "Duration",
                "As the device measured it, where recorded; else from seen started (or called) to seen finished.",
            ),
            "first_called_ns": ("First called", "When the first rank called it, from the first such call on."),
            "arrival_spread_ns": ("Spread", "From the first rank's call to the last one's, by the clocks of their machines."),
        },
    ),
)  # fmt: skip
