"""Shared metrics of memory snapshots."""

from __future__ import annotations

from collections.abc import Mapping

from tb_plugin.analysis.memory_categories import MEANINGS, ORDER, TITLES
from tb_plugin.analysis.metrics import SHARED, define
from tb_plugin.analysis.snapshot.finding_metrics import DEFINITIONS, HISTORY, WITHOUT_BLOCK
from tb_plugin.analysis.snapshot.moment_metrics import MOMENTS
from tb_plugin.payloads import Metric

PEAK = "the peak of allocated bytes of each rank"

_RANKS: tuple[Mapping[str, Metric], ...] = (
    define(
        PEAK,
        "bytes",
        {
            f"rank_{name}_bytes": (TITLES[name], f"Bytes of the category at the rank's peak. {MEANINGS[name]}")
            for name in ORDER
        },
    ),
    define(PEAK, "bytes", {"peaks_apart_bytes": ("Apart", "Largest peak of a rank less the smallest one.")}),
    define("all ranks", "count", {"no_history_ranks": ("Without a history", "Ranks whose snapshots hold no history.")}),
)


MOMENT = "the chosen moment, else that of most allocated bytes"

METRICS = SHARED.adding(
    *DEFINITIONS,
    *MOMENTS,
    define(
        "",
        "code",
        {
            "allocation_stack": ("Stack", "Frames that asked for the memory, innermost first, as recorded."),
            "allocation_line": (
                "Line",
                "The innermost frame of the stack outside of the framework and of Python's standard library; where all "
                "are inside, the innermost Python frame.",
            ),
            "address": ("Address", "First address of the block or segment."),
            "user_metadata": ("Metadata", "What the program attached to the allocation."),
            "compile_context": ("Compiled region", "Region of compiled code that asked for it."),
        },
    ),
    define(
        "",
        "text",
        {
            "stream_name": ("Stream", "Stream that the memory belongs to, as recorded; default: number 0."),
            "pool_name": (
                "Pool",
                "default, or a private pool (of a captured graph, or one that the program made) by its id.",
            ),
            "step_name": ("Step", "Number of the profiler step, from the annotations of the snapshot."),
            "block_module": (
                "Module",
                "The innermost call of a module in the stack whose forward lies outside of the framework, else the "
                "innermost call: file and function of the forward and, where that does not name its class, the line "
                "that calls it; the instance where it is recorded.",
            ),
            "memory_category": ("Category", "Category of the block, as recorded or derived."),
        },
    ),
    define(
        HISTORY,
        "count",
        {
            "event_number": ("Event", "Number of the event on its device; -1 is before the first recorded one."),
            "begin_event": ("Allocated at event", "Number of the event that allocated it; empty: before the history."),
            "end_event": ("Freed at event", "Number of the event that ended it; empty: it is there at the end."),
            "reusable_event": (
                "Given back at event",
                "Event from which on its memory could be given to others; empty: it is active at the end.",
            ),
            "stack_number": ("Stack number", "Number of the stack in the file's model; empty stacks have -1."),
            "block_row": ("Block", "Number of the block on its device, by its first event."),
            "first_event": ("First event", "Number of the first event in the step."),
            "last_event": ("Last event", "Number of the last event in the step."),
            "unrecorded_blocks": (
                "Earlier blocks",
                "Blocks that were there before the first recorded event, those pending a free included.",
            ),
            "odd_events": ("Events", "Events of the device that do not fit together in this way."),
            "entry_limit": ("Events at most", "How many events the recorder was set to keep, all devices together."),
            "history_events": (
                "Events",
                "Allocator events that the snapshot holds of the device; 0 where all are marks.",
            ),
            "oom_count": ("Out of memory", "Events at which the driver had no memory left."),
        },
    ),
    define(HISTORY, "text", {"event_action": ("Action", "What the event did, as recorded.")}),
    *_RANKS,
    define(MOMENT, "count", {"held_blocks": ("Blocks", "Blocks that are allocated.")}),
    define(
        HISTORY,
        "ns",
        {
            "event_ns": ("Time", "Time since the first event of the snapshot."),
            "begin_ns": ("Allocated at", "Time of the allocation since the first event of the snapshot."),
            "end_ns": ("Freed at", "Time of the release since the first event of the snapshot."),
            "step_begin_ns": ("Begin", "Begin of the step since the first event of the snapshot."),
            "step_end_ns": ("End", "End of the step since the first event of the snapshot."),
            "life_ns": ("Lifetime", "Release less allocation."),
        },
    ),
    define(
        MOMENT,
        "bytes",
        {
            "line_bytes": ("Of one line", "Bytes of the allocated blocks of the line that has most of them."),
            "stackless_bytes": ("Without a stack", "Bytes of the allocated blocks of which no stack is known."),
            "held_bytes": ("Bytes", "Bytes of the blocks that are allocated, as the allocator rounded them."),
            "largest_bytes": ("Largest", "Bytes of the largest of these blocks."),
            "active_bytes": ("Active", "Allocated bytes, and those that a stream may still use after their release."),
            "free_bytes": ("Free", f"{WITHOUT_BLOCK}."),
        },
    ),
    define(
        HISTORY,
        "bytes",
        {
            "unrecorded_bytes": (
                "Earlier bytes",
                "Bytes of the blocks that were there before the first recorded event, those pending a free included.",
            ),
            "step_peak_bytes": ("Peak allocated", "Most bytes that were allocated after an event of the step."),
            "active_then_bytes": (
                "Active then",
                "Active bytes after its allocation; of a block from before the history, before the first event.",
            ),
            "block_size_bytes": ("Size", "Bytes of the block, as the allocator rounded them."),
            "requested_bytes": ("Requested", "Bytes that were asked for; known of blocks that are active at the end."),
            "event_bytes": (
                "Bytes",
                "Size of the block or segment that the event is about; when memory ran out, what was asked for.",
            ),
            "asked_bytes": ("Asked for", "Bytes that could not be had."),
            "device_free_bytes": ("Device free", "Bytes that the driver had free then."),
            "most_allocated_bytes": ("Peak allocated", "Most bytes that were allocated at a time."),
            "most_reserved_bytes": ("Peak reserved", "Most bytes that the allocator held from the driver."),
            "allocated_at_end_bytes": (
                "Allocated at the snapshot",
                "Bytes that are allocated when the snapshot was taken.",
            ),
            "reserved_at_end_bytes": ("Reserved at the snapshot", "Reserved bytes when the snapshot was taken."),
        },
    ),
    define(
        MOMENT,
        "ratio",
        {"line_ratio": ("Share of one line", "Bytes of the line that has most of them, over all allocated bytes.")},
    ),
)
