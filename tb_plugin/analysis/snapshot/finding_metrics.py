"""Metrics of snapshot findings, growth and changes."""

from __future__ import annotations

from collections.abc import Mapping

from tb_plugin.analysis.metrics import define
from tb_plugin.payloads import Metric

PEAKS = "the steps after the first one"
HISTORY = "the recorded history of the device"
COUNTED = "the steps after the first one, less the last ones whose blocks may yet be released"
MOST_RESERVED = "the moment of most reserved bytes"
TWO_MOMENTS = "the two chosen moments"
RAN_OUT = "the moment at which memory ran out"

WITHOUT_BLOCK = "Bytes of the segments that no block uses: the allocator's cache"
GAP = "Bytes of the largest free range"

DEFINITIONS: tuple[Mapping[str, Metric], ...] = (
    define(
        COUNTED,
        "bytes",
        {
            "step_growth_bytes": (
                "A step",
                "Bytes of the blocks that a step allocates and that are left after the last one, on the average.",
            ),
            "left_bytes": (
                "Left",
                "Bytes of all blocks that these steps allocated and that are left after the last one.",
            ),
        },
    ),
    define(
        COUNTED,
        "number",
        {"step_growth_blocks": ("Blocks a step", "Blocks that a step allocates and that are left, on the average.")},
    ),
    define(
        COUNTED,
        "count",
        {
            "growing_steps": ("Steps that grow", "Steps that leave any block."),
            "counted_steps": ("Steps", "Steps that are counted."),
            "left_blocks": ("Blocks left", "Blocks that these steps allocated and that are left after the last one."),
        },
    ),
    define(
        COUNTED,
        "ratio",
        {
            "leak_confidence": (
                "Confidence",
                "Share of the steps that leave any, times how alike they are; 0 where too few were counted, or growth "
                "ended.",
            )
        },
    ),
    define(
        PEAKS,
        "bytes",
        {
            "peak_growth_bytes": ("A step", "The last peak less the first one, over the steps from one to the other."),
            "first_peak_bytes": ("First peak", "Most allocated bytes in the first counted step."),
            "last_peak_bytes": ("Last peak", "Most allocated bytes in the last step."),
            "risen_bytes": (
                "Of the line",
                "Bytes of the stack with the largest difference: at the last peak less at the first one.",
            ),
        },
    ),
    define(PEAKS, "count", {"peak_steps": ("Steps", "Steps from the first counted one to the last one.")}),
    define(
        PEAKS,
        "ratio",
        {"rising_ratio": ("Rising", "Share of these steps whose peak is higher than that of the one before.")},
    ),
    define(
        MOST_RESERVED,
        "bytes",
        {
            "unused_bytes": ("Not in use", f"{WITHOUT_BLOCK}."),
            "pinned_bytes": ("Pinned", "Those in segments that hold a block, and cannot be given back."),
            "pool_unused_bytes": ("In one pool", "Those in the private pool that has most of them."),
            "small_unused_bytes": ("In small segments", "Those in segments for blocks of up to 1 MiB."),
            "largest_gap_bytes": ("Largest gap", f"{GAP}."),
            "reserved_then_bytes": ("Reserved then", "Bytes of all segments."),
        },
    ),
    define(MOST_RESERVED, "ratio", {"unused_ratio": ("Not in use", "Those bytes over the reserved ones.")}),
    define(MOST_RESERVED, "count", {"pinned_segments": ("Pinned segments", "Segments that hold a block and a gap.")}),
    define(
        MOST_RESERVED,
        "code",
        {
            "pinning_line": (
                "Pinned by",
                "Line whose blocks stay to the end in the segments with most of the pinned bytes.",
            )
        },
    ),
    define(
        "the steps after the first one",
        "ratio",
        {
            "varying_ratio": (
                "Varying",
                "Share of the allocated bytes whose stacks allocate other bytes from step to step.",
            )
        },
    ),
    define(
        RAN_OUT,
        "bytes",
        {
            "cache_free_bytes": ("Free in the cache", f"{WITHOUT_BLOCK}, whoever may use it."),
            "line_held_bytes": ("Held by the line", "Bytes of the blocks that the line had allocated."),
        },
    ),
    define(
        RAN_OUT,
        "code",
        {
            "asking_line": ("Asked by", "Line of code whose request could not be served."),
            "holding_line": ("Most was held by", "Line of code with most allocated bytes."),
        },
    ),
    define(
        "the steps after the first one",
        "count",
        {
            "swing_steps": ("Steps that swing", "Steps in which segments are given back and segments are taken."),
            "steady_steps": ("Steps", "Steps after the first one."),
            "segments_given": ("Given back", "Segments, or pieces of them, that were given back to the driver."),
            "segments_taken": ("Taken", "Segments, or pieces of them, that were taken from the driver."),
        },
    ),
    define(
        "the steps after the first one",
        "ratio",
        {"swing_ratio": ("Steps that swing", "Steps in which segments are given back and taken, over all of them.")},
    ),
    define(
        "the steps after the first one",
        "bytes",
        {"swing_bytes": ("A step", "Bytes that are both given back and taken in a step, on the average.")},
    ),
    define(
        HISTORY,
        "bytes",
        {
            "transient_bytes": ("Block", "Bytes of the short-lived block at the peak."),
            "peak_less_bytes": (
                "Peak without",
                "Most allocated bytes without the short-lived blocks of this stack.",
            ),
            "saved_bytes": ("Lower by", "Peak less the peak without."),
        },
    ),
    define(HISTORY, "ratio", {"saved_ratio": ("Lower by", "Those bytes over the peak.")}),
    define(HISTORY, "count", {"life_events": ("Life", "Events from the allocation of a block to its release.")}),
    define(
        "all steps",
        "text",
        {
            "snapshot_step": (
                "Step",
                "Number of the step as annotated, else counted from 0; end: the end of the last one.",
            )
        },
    ),
    define(
        "all steps",
        "count",
        {
            "snapshot_steps": ("Steps", "Steps of the history, as annotated."),
            "last_step_blocks": (
                "Blocks after the last",
                "Blocks that are allocated at the end of the last step, those of the first step and older ones too.",
            ),
            "growing_stacks": ("Growing stacks", "Stacks that are leak candidates: of a confidence of at least 0.7."),
        },
    ),
    define(
        "all steps",
        "bytes",
        {
            "first_step_bytes": ("After the first", "Bytes that are allocated at the end of the first step."),
            "last_step_bytes": ("After the last", "Bytes that are allocated at the end of the last step."),
            "delta_live_bytes": (
                "Change",
                "Allocated bytes at the end of the last step less those after the first.",
            ),
            "live_bytes_at_step": ("Live", "Bytes that are allocated when the step begins."),
            "growth_score": ("Weighed", "Bytes a step times confidence: the order of the table."),
        },
    ),
    define(
        "what is chosen",
        "bytes",
        {
            "place_bytes": ("Bytes", "Bytes of the blocks whose stacks go through the place."),
            "place_own_bytes": ("Own", "Bytes of the blocks whose stacks end at the place."),
        },
    ),
    define("what is chosen", "count", {"place_blocks": ("Blocks", "Blocks whose stacks go through the place.")}),
    define(
        TWO_MOMENTS,
        "text",
        {
            "memory_change": (
                "Change",
                "appears, gone, grew, shrank, or same: the later bytes beside the earlier ones.",
            ),
            "block_change": ("Block", "Whether it is at both moments (still there), or at one of them."),
        },
    ),
    define(
        TWO_MOMENTS,
        "bytes",
        {
            "delta_held_bytes": (
                "Difference",
                "Later less earlier bytes (experiment less baseline).",
            ),
            "difference_size_bytes": ("Size of the difference", "The same without its sign: the order of the table."),
            "earlier_bytes": ("Earlier", "Bytes that are allocated at the earlier moment."),
            "later_bytes": ("Later", "Bytes that are allocated at the later moment."),
            "still_bytes": ("Still there (bytes)", "Bytes of the blocks that are allocated at both."),
        },
    ),
    define(
        TWO_MOMENTS,
        "count",
        {
            "delta_held_blocks": (
                "Blocks more",
                "Later less earlier blocks (experiment less baseline).",
            ),
            "earlier_blocks": ("Earlier blocks", "Blocks that are allocated at the earlier moment."),
            "later_blocks": ("Later blocks", "Blocks that are allocated at the later moment."),
            "still_blocks": ("Still there", "Blocks that are allocated at both."),
        },
    ),
    define("two snapshots", "text", {"snapshot_figure": ("Figure", "Which number of the snapshots it is.")}),
    define(
        "two snapshots",
        "bytes",
        {
            "base_held_bytes": ("Baseline", "Bytes in the baseline."),
            "exp_held_bytes": ("Experiment", "Bytes in the experiment."),
            "delta_line_bytes": (
                "Of the stack",
                "Bytes of the stack with the largest change, experiment less baseline.",
            ),
            "never_used_bytes": ("Never in use", "Most reserved less most active bytes."),
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
