"""Metrics shared by snapshot views."""

from __future__ import annotations

from collections.abc import Mapping

from tb_plugin.analysis.memory_categories import ORDER, TITLES
from tb_plugin.analysis.metrics import SHARED, define
from tb_plugin.analysis.snapshot.finding_metrics import DEFINITIONS, HISTORY, WITHOUT_BLOCK
from tb_plugin.analysis.snapshot.moment_metrics import MOMENTS
from tb_plugin.payloads import Metric

PEAK = "the peak of allocated bytes of each rank"

_RANKS: tuple[Mapping[str, Metric], ...] = (
    define(
        PEAK,
        "bytes",
        {f"rank_{name}_bytes": (TITLES[name], "Category bytes at the rank's peak.") for name in ORDER},
    ),
    define(PEAK, "bytes", {"peaks_apart_bytes": ("Peak difference", "Largest minus smallest peak of all ranks.")}),
    define("all ranks", "count", {"no_history_ranks": ("Without history", "Ranks without a recorded history.")}),
)


MOMENT = "selected time, else the allocated peak"

METRICS = SHARED.adding(
    *DEFINITIONS,
    *MOMENTS,
    define(
        "",
        "code",
        {
            "allocation_stack": ("Stack", "Recorded frames of the allocation, innermost first."),
            "allocation_line": ("Line", "Innermost frame outside the framework, else the innermost Python frame."),
            "address": ("Address", "First address of the block or segment."),
            "user_metadata": ("Metadata", "Metadata attached by the program."),
            "compile_context": ("Compiled region", "Compiled region that made the allocation."),
        },
    ),
    define(
        "",
        "text",
        {
            "stream_name": ("Stream", "Recorded stream; default is number 0."),
            "pool_name": ("Pool", "default, or the id of a private pool."),
            "step_name": ("Step", "Annotated step number."),
            "block_module": (
                "Module",
                "Innermost module outside the framework, else the innermost module.",
            ),
            "memory_category": ("Category", "Recorded or derived category of the block."),
        },
    ),
    define(
        HISTORY,
        "count",
        {
            "event_number": ("Event", "Event number on its device; -1 means before the first event."),
            "begin_event": (
                "Allocated at event",
                "Allocation event number; empty if before the history.",
            ),
            "end_event": ("Freed at event", "Release event number; empty if still allocated."),
            "reusable_event": (
                "Reusable at event",
                "First event with reusable memory; empty if still active.",
            ),
            "stack_number": ("Stack number", "Stack number; -1 for an empty stack."),
            "block_row": ("Block", "Block number on its device, in order of first events."),
            "first_event": ("First event", "First event of the step."),
            "last_event": ("Last event", "Last event of the step."),
            "unrecorded_blocks": (
                "Earlier blocks",
                "Blocks from before the first event, active or waiting to be freed.",
            ),
            "odd_events": ("Events", "Inconsistent events of the device."),
            "entry_limit": ("Max events", "Most events that the recorder stores, over all devices."),
            "history_events": ("Events", "Recorded allocator events of the device."),
            "oom_count": ("Out of memory", "Out-of-memory events of the driver."),
        },
    ),
    define(HISTORY, "text", {"event_action": ("Action", "Recorded action.")}),
    *_RANKS,
    define(MOMENT, "count", {"held_blocks": ("Blocks", "Allocated blocks.")}),
    define(
        HISTORY,
        "ns",
        {
            "event_ns": ("Time", "Time since the first event."),
            "begin_ns": ("Allocated at", "Allocation time, since the first event."),
            "end_ns": ("Freed at", "Release time, since the first event."),
            "step_begin_ns": ("Start", "Step start, since the first event."),
            "step_end_ns": ("End", "Step end, since the first event."),
            "life_ns": ("Lifetime", "Release time minus allocation time."),
        },
    ),
    define(
        MOMENT,
        "bytes",
        {
            "line_bytes": ("Largest line", "Bytes allocated by the line with the most."),
            "stackless_bytes": ("Without a stack", "Allocated bytes without a recorded stack."),
            "held_bytes": ("Bytes", "Bytes of the allocated blocks, rounded by the allocator."),
            "largest_bytes": ("Largest", "Bytes of the largest block."),
            "active_bytes": ("Active", "Allocated bytes plus bytes waiting to be freed."),
            "free_bytes": ("Free", f"{WITHOUT_BLOCK}."),
        },
    ),
    define(
        HISTORY,
        "bytes",
        {
            "unrecorded_bytes": (
                "Earlier bytes",
                "Bytes from before the first event, active or waiting to be freed.",
            ),
            "step_peak_bytes": ("Peak allocated", "Largest allocated memory during the step."),
            "active_then_bytes": ("Active then", "Active bytes after the allocation."),
            "block_size_bytes": ("Size", "Bytes of the block, rounded by the allocator."),
            "requested_bytes": ("Requested", "Requested bytes, for blocks active at the end."),
            "event_bytes": ("Bytes", "Bytes of the block, segment or failed request."),
            "asked_bytes": ("Requested", "Bytes of the failed request."),
            "device_free_bytes": ("Device free", "Free device memory reported by the driver at that time."),
            "most_allocated_bytes": ("Peak allocated", "Largest allocated memory."),
            "most_reserved_bytes": ("Peak reserved", "Largest reserved memory."),
            "allocated_at_end_bytes": ("Allocated at the snapshot", "Allocated bytes at the snapshot."),
            "reserved_at_end_bytes": ("Reserved at the snapshot", "Reserved bytes at the snapshot."),
        },
    ),
    define(
        MOMENT,
        "ratio",
        {"line_ratio": ("Share of largest line", "Bytes of the largest line divided by all allocated bytes.")},
    ),
)
