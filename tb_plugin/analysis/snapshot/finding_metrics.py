"""Metrics of snapshot findings, growth and changes."""

from __future__ import annotations

from collections.abc import Mapping

from tb_plugin.analysis.metrics import define
from tb_plugin.payloads import Metric

PEAKS = "steps after the first"
HISTORY = "the recorded history of the device"
COUNTED = "steps after the first, without the last ones"
MOST_RESERVED = "the reserved peak"
TWO_MOMENTS = "the two selected times"
RAN_OUT = "out of memory"

WITHOUT_BLOCK = "Segment bytes that no block uses"
GAP = "Size of the largest gap"

DEFINITIONS: tuple[Mapping[str, Metric], ...] = (
    define(
        COUNTED,
        "bytes",
        {
            "step_growth_bytes": ("Per step", "Bytes per step that remain allocated after the last step."),
            "left_bytes": ("Remaining", "Bytes of these steps that remain allocated after the last step."),
        },
    ),
    define(
        COUNTED,
        "number",
        {
            "step_growth_blocks": (
                "Blocks per step",
                "Blocks per step that remain allocated after the last step.",
            )
        },
    ),
    define(
        COUNTED,
        "count",
        {
            "growing_steps": ("Growing steps", "Steps with unreleased blocks."),
            "counted_steps": ("Steps", "Analysed steps."),
            "left_blocks": (
                "Remaining blocks",
                "Blocks of these steps that remain allocated after the last step.",
            ),
        },
    ),
    define(
        COUNTED,
        "ratio",
        {"leak_confidence": ("Confidence", "Share of growing steps multiplied by the evenness of their growth.")},
    ),
    define(
        PEAKS,
        "bytes",
        {
            "peak_growth_bytes": (
                "Per step",
                "Last peak minus first peak, divided by the steps between them.",
            ),
            "first_peak_bytes": ("First peak", "Peak allocated memory of the first analysed step."),
            "last_peak_bytes": ("Last peak", "Peak allocated memory of the last step."),
            "risen_bytes": (
                "Line growth",
                "Largest growth of a stack from the first peak to the last.",
            ),
        },
    ),
    define(PEAKS, "count", {"peak_steps": ("Steps", "Steps from the first analysed step to the last.")}),
    define(
        PEAKS,
        "ratio",
        {"rising_ratio": ("Rising peaks", "Share of steps with a higher peak than the step before.")},
    ),
    define(
        MOST_RESERVED,
        "bytes",
        {
            "unused_bytes": ("Unused", f"{WITHOUT_BLOCK}."),
            "pinned_bytes": ("Pinned", "Unused bytes in segments with an active block."),
            "pool_unused_bytes": ("In one pool", "Most unused bytes in one private pool."),
            "small_unused_bytes": ("In small segments", "Unused bytes in segments for blocks up to 1 MiB."),
            "largest_gap_bytes": ("Largest gap", f"{GAP}."),
            "reserved_then_bytes": ("Segment bytes", "Bytes of all segments."),
        },
    ),
    define(MOST_RESERVED, "ratio", {"unused_ratio": ("Unused", "Unused bytes divided by reserved bytes.")}),
    define(
        MOST_RESERVED, "count", {"pinned_segments": ("Pinned segments", "Segments with an active block and a gap.")}
    ),
    define(
        MOST_RESERVED,
        "code",
        {
            "pinning_line": (
                "Pinned by",
                "Line of the unreleased blocks that pin the most bytes.",
            )
        },
    ),
    define(
        "steps after the first",
        "ratio",
        {
            "varying_ratio": (
                "Varying",
                "Share of bytes from stacks with varying allocations per step.",
            )
        },
    ),
    define(
        RAN_OUT,
        "bytes",
        {
            "cache_free_bytes": ("Free in the cache", f"{WITHOUT_BLOCK}, in all pools."),
            "line_held_bytes": ("Allocated by the line", "Bytes allocated by this line."),
        },
    ),
    define(
        RAN_OUT,
        "code",
        {
            "asking_line": ("Requested by", "Line that made the failed request."),
            "holding_line": ("Largest line", "Line with the most allocated bytes."),
        },
    ),
    define(
        "steps after the first",
        "count",
        {
            "swing_steps": (
                "Oscillating steps",
                "Steps that both return and reserve segments.",
            ),
            "steady_steps": ("Steps", "Steps after the first step."),
            "segments_given": ("Returned", "Segments returned to the driver."),
            "segments_taken": ("Acquired", "Segments taken from the driver."),
        },
    ),
    define(
        "steps after the first",
        "ratio",
        {"swing_ratio": ("Oscillating steps", "Share of oscillating steps.")},
    ),
    define(
        "steps after the first",
        "bytes",
        {"swing_bytes": ("Per step", "Bytes both returned and taken per step.")},
    ),
    define(
        HISTORY,
        "bytes",
        {
            "transient_bytes": ("Block", "Bytes of the short-lived block at the peak."),
            "peak_less_bytes": ("Reduced peak", "Peak allocated without the short-lived blocks of this stack."),
            "saved_bytes": ("Peak reduction", "Peak minus the peak without these blocks."),
        },
    ),
    define(HISTORY, "ratio", {"saved_ratio": ("Peak reduction", "Peak reduction divided by the peak.")}),
    define(HISTORY, "count", {"life_events": ("Lifetime", "Events from allocation to release.")}),
    define(
        "all steps",
        "text",
        {"snapshot_step": ("Step", "Annotated step number, else index; end: end of the last step.")},
    ),
    define(
        "all steps",
        "count",
        {
            "snapshot_steps": ("Steps", "Annotated steps in the recorded history."),
            "last_step_blocks": ("Blocks after last step", "Blocks allocated at the end of the last step."),
            "growing_stacks": ("Growing stacks", "Stacks with a leak confidence of at least 0.7."),
        },
    ),
    define(
        "all steps",
        "bytes",
        {
            "first_step_bytes": ("After first step", "Bytes allocated at the end of the first step."),
            "last_step_bytes": ("After last step", "Bytes allocated at the end of the last step."),
            "delta_live_bytes": ("Change", "Bytes after the last step minus bytes after the first."),
            "live_bytes_at_step": ("Live", "Bytes allocated at step start."),
            "growth_score": ("Growth score", "Bytes per step multiplied by confidence."),
        },
    ),
    define(
        "the selection",
        "bytes",
        {
            "place_bytes": ("Bytes", "Bytes of blocks whose stack contains this frame."),
            "place_own_bytes": ("Self", "Bytes of blocks whose stack ends at this frame."),
        },
    ),
    define("the selection", "count", {"place_blocks": ("Blocks", "Blocks whose stack contains this frame.")}),
    define(
        TWO_MOMENTS,
        "text",
        {
            "memory_change": ("Change", "Later versus earlier bytes: appears, gone, grew, shrank or same."),
            "block_change": ("Block", "Allocated at both times, or at only one of them."),
        },
    ),
    define(
        TWO_MOMENTS,
        "bytes",
        {
            "delta_held_bytes": ("Difference", "Later minus earlier bytes (experiment minus baseline)."),
            "difference_size_bytes": ("Size of the difference", "Absolute difference."),
            "earlier_bytes": ("Earlier", "Bytes allocated at the earlier time."),
            "later_bytes": ("Later", "Bytes allocated at the later time."),
            "still_bytes": ("At both times (bytes)", "Bytes of blocks allocated at both times."),
        },
    ),
    define(
        TWO_MOMENTS,
        "count",
        {
            "delta_held_blocks": ("Block difference", "Later minus earlier blocks (experiment minus baseline)."),
            "earlier_blocks": ("Earlier blocks", "Blocks allocated at the earlier time."),
            "later_blocks": ("Later blocks", "Blocks allocated at the later time."),
            "still_blocks": ("At both times", "Blocks allocated at both times."),
        },
    ),
    define("two snapshots", "text", {"snapshot_figure": ("Figure", "Compared memory quantity.")}),
    define(
        "two snapshots",
        "bytes",
        {
            "base_held_bytes": ("Baseline", "Bytes in the baseline."),
            "exp_held_bytes": ("Experiment", "Bytes in the experiment."),
            "delta_line_bytes": (
                "Stack change",
                "Largest change of a stack, experiment minus baseline.",
            ),
            "never_used_bytes": ("Never used", "Peak reserved minus peak active bytes."),
        },
    ),
    define(
        "two snapshots",
        "count",
        {
            "base_held_blocks": ("Baseline blocks", "Blocks of the stack in the baseline."),
            "exp_held_blocks": ("Experiment blocks", "Blocks of the stack in the experiment."),
        },
    ),
)
