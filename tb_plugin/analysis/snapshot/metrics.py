"""Metrics of snapshots."""

from __future__ import annotations

from tb_plugin.analysis.memory.metrics import METRICS as OF_BLOCKS
from tb_plugin.analysis.memory_categories import TITLES

HISTORY = "the recorded history of the device"
LATER_STEPS = "steps after the first"
MOST_RESERVED = "the reserved peak"
TWO_MOMENTS = "the two selected times"
RAN_OUT = "out of memory"
MOMENT = "selected time, else the allocated peak"
AT_EVENT = "after the selected event"
RANK_PEAK = "the peak of allocated bytes of each rank"
STEPS = "all steps"
SELECTION = "the selection"
TWO_SNAPSHOTS = "two snapshots"

METRICS = OF_BLOCKS.defining(
    {
        (LATER_STEPS, "bytes"): {
            "peak_growth_bytes": ("Per step", "Last peak minus first peak, divided by the steps between them."),
            "first_peak_bytes": ("First peak", "Peak allocated memory of the first analyzed step."),
            "last_peak_bytes": ("Last peak", "Peak allocated memory of the last step."),
            "risen_bytes": ("Line growth", "Largest growth of a stack from the first peak to the last."),
        },
        (LATER_STEPS, "count"): {"peak_steps": ("Steps", "Steps from the first analyzed step to the last.")},
        (LATER_STEPS, "ratio"): {
            "rising_ratio": ("Rising peaks", "Share of steps with a higher peak than the step before.")
        },
        (MOST_RESERVED, "bytes"): {
            "unused_bytes": ("Unused", "Segment bytes that no block uses."),
            "pinned_bytes": ("Pinned", "Unused bytes in segments with an active block."),
            "pool_unused_bytes": ("In one pool", "Most unused bytes in one private pool."),
            "small_unused_bytes": ("In small segments", "Unused bytes in segments for blocks up to 1 MiB."),
            "largest_gap_bytes": ("Largest gap", "Size of the largest gap."),
            "reserved_then_bytes": ("Segment bytes", "Bytes of all segments."),
        },
        (MOST_RESERVED, "ratio"): {"unused_ratio": ("Unused", "Unused bytes divided by reserved bytes.")},
        (MOST_RESERVED, "count"): {"pinned_segments": ("Pinned segments", "Segments with an active block and a gap.")},
        (MOST_RESERVED, "code"): {
            "pinning_line": ("Pinned by", "Line of the unreleased blocks that pin the most bytes.")
        },
        (RAN_OUT, "bytes"): {
            "cache_free_bytes": ("Free in the cache", "Segment bytes that no block uses, in all pools."),
            "line_held_bytes": ("Allocated by the line", "Bytes allocated by this line."),
        },
        (RAN_OUT, "code"): {
            "asking_line": ("Requested by", "Line that made the failed request."),
            "holding_line": ("Largest line", "Line with the most allocated bytes."),
        },
        (HISTORY, "count"): {
            "life_events": ("Lifetime", "Events from allocation to release."),
            "next_event": ("Next", "Next event of this kind."),
            "previous_event": ("Previous", "Previous event of this kind."),
            "event_number": ("Event", "Event number on its device; -1 means before the first event."),
            "begin_event": ("Allocated at event", "Allocation event number; empty if allocated before the history."),
            "end_event": ("Freed at event", "Release event number; empty if still allocated."),
            "reusable_event": ("Reusable at event", "First event with reusable memory; empty if still active."),
            "stack_number": ("Stack number", "Stack number; -1 for an empty stack."),
            "block_row": ("Block", "Block number on its device, in order of first events."),
            "first_event": ("First event", "First event of the step."),
            "last_event": ("Last event", "Last event of the step."),
            "unrecorded_blocks": (
                "Earlier blocks",
                "Blocks from before the first event, active or waiting to be freed.",
            ),
            "odd_events": ("Events", "Inconsistent events of the device."),
            "entry_limit": ("Max events", "Maximum events stored by the recorder, over all devices."),
            "history_events": ("Events", "Recorded allocator events of the device."),
            "oom_count": ("Out of memory", "Out-of-memory events of the driver."),
        },
        (STEPS, "text"): {"snapshot_step": ("Step", "Annotated step number, else index; end: end of the last step.")},
        (STEPS, "count"): {
            "snapshot_steps": ("Steps", "Annotated steps in the recorded history."),
            "last_step_blocks": ("Blocks after last step", "Blocks allocated at the end of the last step."),
            "growing_stacks": ("Growing stacks", "Stacks with a leak confidence of at least 0.7."),
        },
        (STEPS, "bytes"): {
            "first_step_bytes": ("After first step", "Bytes allocated at the end of the first step."),
            "last_step_bytes": ("After last step", "Bytes allocated at the end of the last step."),
            "delta_live_bytes": ("Change", "Bytes after the last step minus bytes after the first."),
            "live_bytes_at_step": ("Live", "Bytes allocated at step start."),
            "growth_score": ("Growth score", "Bytes per step multiplied by confidence."),
        },
        (SELECTION, "bytes"): {
            "place_bytes": ("Bytes", "Bytes of blocks whose stack contains this frame."),
            "place_own_bytes": ("Self", "Bytes of blocks whose stack ends at this frame."),
        },
        (SELECTION, "count"): {"place_blocks": ("Blocks", "Blocks whose stack contains this frame.")},
        (TWO_MOMENTS, "text"): {
            "memory_change": ("Change", "Later versus earlier bytes: appears, gone, grew, shrank or same."),
            "block_change": ("Block", "Allocated at both times, or at only one of them."),
        },
        (TWO_MOMENTS, "bytes"): {
            "delta_held_bytes": ("Difference", "Later minus earlier bytes (experiment minus baseline)."),
            "difference_size_bytes": ("Size of the difference", "Absolute difference."),
            "earlier_bytes": ("Earlier", "Bytes allocated at the earlier time."),
            "later_bytes": ("Later", "Bytes allocated at the later time."),
            "still_bytes": ("At both times (bytes)", "Bytes of blocks allocated at both times."),
        },
        (TWO_MOMENTS, "count"): {
            "delta_held_blocks": ("Block difference", "Later minus earlier blocks (experiment minus baseline)."),
            "earlier_blocks": ("Earlier blocks", "Blocks allocated at the earlier time."),
            "later_blocks": ("Later blocks", "Blocks allocated at the later time."),
            "still_blocks": ("At both times", "Blocks allocated at both times."),
        },
        (TWO_SNAPSHOTS, "text"): {"snapshot_figure": ("Figure", "Compared memory quantity.")},
        (TWO_SNAPSHOTS, "bytes"): {
            "base_held_bytes": ("Baseline", "Bytes in the baseline."),
            "exp_held_bytes": ("Experiment", "Bytes in the experiment."),
            "delta_line_bytes": ("Stack change", "Largest change of a stack, experiment minus baseline."),
            "never_used_bytes": ("Never used", "Peak reserved minus peak active bytes."),
        },
        (TWO_SNAPSHOTS, "count"): {
            "base_held_blocks": ("Baseline blocks", "Blocks of the stack in the baseline."),
            "exp_held_blocks": ("Experiment blocks", "Blocks of the stack in the experiment."),
        },
        (AT_EVENT, "text"): {
            "segment_kind": (
                "Kind",
                "small: blocks up to 1 MiB. large: larger blocks. expandable: grows and shrinks by pages.",
            )
        },
        (AT_EVENT, "bytes"): {
            "segment_bytes": ("Reserved", "Bytes of the segments."),
            "allocated_now_bytes": ("Allocated", "Bytes of blocks that the program has not released."),
            "pending_now_bytes": ("Pending free", "Bytes of released blocks that a stream still uses."),
            "free_now_bytes": ("Free", "Segment bytes that no block uses."),
            "widest_gap_bytes": ("Largest gap", "Size of the largest gap."),
            "stuck_bytes": ("Unreturnable", "Free bytes in segments (or pages) that contain a block."),
            "rounding_bytes": ("Rounding loss", "Block size minus requested bytes, for blocks allocated at the end."),
            "returnable_bytes": ("Returnable", "Bytes returnable to the driver if this block were released."),
            "unknown_place_bytes": ("Unlocated", "Bytes of blocks without a known segment."),
            "gap_from_bytes": ("Gap of at least", "Smallest gap size in the range: half of the largest."),
            "gaps_bytes": ("Free in such gaps", "Bytes of gaps in this size range."),
            "in_way_bytes": ("Blocking bytes", "Bytes of the blocks that separate the free memory."),
            "gap_without_bytes": ("Gap without blockers", "Size of the gap without the blocking blocks."),
            "pool_free_bytes": ("Free in pool", "Free bytes in the request's stream, pool and size class."),
            "pool_gap_bytes": (
                "Largest gap in pool",
                "Size of the largest gap in the request's stream, pool and size class.",
            ),
        },
        (AT_EVENT, "ratio"): {
            "scattered_ratio": ("Scattered", "1 - largest gap / free bytes."),
            "unusable_ratio": ("Too small", "Share of free bytes in gaps smaller than the request."),
        },
        (AT_EVENT, "count"): {
            "segments_now": ("Segments", "Live segments; an expandable segment counts once."),
            "blocks_now": ("Blocks", "Allocated blocks plus blocks waiting to be freed."),
            "gaps_now": ("Gaps", "Free ranges between blocks."),
            "in_way_blocks": ("Blocking blocks", "Neighboring blocks that separate free memory for the request."),
            "age_events": ("Age", "Events since the allocation; empty if allocated before the history."),
        },
        (AT_EVENT, "bool"): {
            "is_pending": ("Pending free", "Released, but still in use by a stream."),
            "fits_joined": ("Fits in one piece", "The request would fit if free memory were contiguous."),
        },
        (HISTORY, "bytes"): {
            "request_bytes": ("Request", "Selected size, else that of the failed request or largest block."),
            "pool_reserved_bytes": ("Reserved", "Segment bytes after each event, in total or per stream and pool."),
            "unrecorded_bytes": ("Earlier bytes", "Bytes from before the first event, active or waiting to be freed."),
            "step_peak_bytes": ("Peak allocated", "Largest allocated memory during the step."),
            "active_then_bytes": ("Active bytes", "Active bytes after the allocation."),
            "block_size_bytes": ("Size", "Bytes of the block, rounded by the allocator."),
            "requested_bytes": ("Requested", "Requested bytes, for blocks active at the end."),
            "event_bytes": ("Bytes", "Bytes of the block, segment or failed request."),
            "asked_bytes": ("Requested", "Bytes of the failed request."),
            "device_free_bytes": ("Device free", "Free device memory reported by the driver."),
            "most_allocated_bytes": ("Peak allocated", "Largest allocated memory."),
            "most_reserved_bytes": ("Peak reserved", "Largest reserved memory."),
            "allocated_at_end_bytes": ("Allocated at the snapshot", "Allocated bytes at the snapshot."),
            "reserved_at_end_bytes": ("Reserved at the snapshot", "Reserved bytes at the snapshot."),
        },
        ("", "code"): {
            "allocation_stack": ("Stack", "Recorded frames of the allocation, innermost first."),
            "allocation_line": ("Line", "Innermost frame outside the framework, else the innermost Python frame."),
            "address": ("Address", "First address of the block or segment."),
            "user_metadata": ("Metadata", "Metadata attached by the program."),
            "compile_context": ("Compiled region", "Compiled region that made the allocation."),
        },
        ("", "text"): {
            "stream_name": ("Stream", "Recorded stream; default is number 0."),
            "pool_name": ("Pool", "default, or the id of a private pool."),
            "step_name": ("Step", "Annotated step number."),
            "block_module": ("Module", "Innermost module outside the framework, else the innermost module."),
            "memory_category": ("Category", "Recorded or derived category of the block."),
            "top_category": ("Largest category", "Known category with the most bytes."),
        },
        (HISTORY, "text"): {"event_action": ("Action", "Recorded action.")},
        (RANK_PEAK, "bytes"): {
            **{f"rank_{name}_bytes": (title, "Category bytes at the rank's peak.") for name, title in TITLES.items()},
            "peaks_apart_bytes": ("Peak difference", "Largest minus smallest peak of all ranks."),
        },
        ("all ranks", "count"): {"no_history_ranks": ("Without history", "Ranks without a recorded history.")},
        (MOMENT, "count"): {"held_blocks": ("Blocks", "Allocated blocks.")},
        (HISTORY, "ns"): {
            "event_ns": ("Time", "Time since the first event."),
            "begin_ns": ("Allocated at", "Allocation time, since the first event."),
            "end_ns": ("Freed at", "Release time, since the first event."),
            "step_begin_ns": ("Start", "Step start, since the first event."),
            "step_end_ns": ("End", "Step end, since the first event."),
            "life_ns": ("Lifetime", "Release time minus allocation time."),
        },
        (MOMENT, "bytes"): {
            "line_bytes": ("Largest line", "Largest number of bytes allocated by one line."),
            "top_category_bytes": ("Largest category", "Largest number of bytes in one known category."),
            "stackless_bytes": ("Without a stack", "Allocated bytes without a recorded stack."),
            "held_bytes": ("Bytes", "Bytes of the allocated blocks, rounded by the allocator."),
            "largest_bytes": ("Largest", "Bytes of the largest block."),
            "active_bytes": ("Active", "Allocated bytes plus bytes waiting to be freed."),
            "free_bytes": ("Free", "Segment bytes that no block uses."),
        },
        (MOMENT, "ratio"): {
            "line_ratio": ("Share of largest line", "Share of all allocated bytes in the largest line."),
            "top_category_ratio": (
                "Share of largest category",
                "Share of all allocated bytes in the largest category.",
            ),
        },
    }
)
