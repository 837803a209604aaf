"""Metrics of memory blocks, levels and allocations in traces."""

from __future__ import annotations

from tb_plugin.analysis.device_memory.metrics import METRICS as OF_DEVICES
from tb_plugin.analysis.metrics import CHOSEN_WINDOW, define

_WHAT = {
    "allocated": "allocated",
    "active": "allocated or waiting to be freed",
    "reserved": "reserved from the driver",
}

_OF_TOTALS = (
    define(
        "",
        "text",
        {
            "allocator": ("Allocator", "Reported allocator or process, or the sum of all allocators."),
            "component": ("Component", "Reported software component that retains device memory."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "count",
        {
            "stated_samples": ("Samples", "Reported totals."),
            "stated_release_samples": (
                "Releases only",
                "Samples with a negative total.",
            ),
            "components": ("Components", "Software components with reported memory."),
            "zero_components": ("Empty components", "Components that always have zero memory."),
            "release_components": ("Releases only", "Components that report only releases."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "bytes",
        {
            **{
                f"stated_{key}_bytes": (key.capitalize(), f"Reported bytes that are {what}.")
                for key, what in _WHAT.items()
            },
            **{
                f"stated_peak_{key}_bytes": (f"Peak {key}", f"Reported peak of bytes that are {what}.")
                for key, what in _WHAT.items()
            },
            "signed_bytes": ("Recorded size", "Reported size; negative when an earlier block is released."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ns",
        {
            **{
                f"stated_peak_{key}_at_ns": (f"Peak {key} at", "First time of the peak, since trace start.")
                for key in _WHAT
            },
            "pooled_at_ns": ("Reusable at", "Time when the memory becomes reusable, since the first event."),
        },
    ),
)


METRICS = OF_DEVICES.adding(
    *_OF_TOTALS,
    define(
        "",
        "code",
        {
            "caller": ("Called by", "Operator that calls the allocating operator."),
            "outermost_operator": ("Top-level operator", "Top-level operator running at the allocation."),
            "allocation_frame": ("Python line", "Python line of the allocation."),
            "allocation_phase": ("Phase", "Innermost annotation around the allocation, except steps."),
        },
    ),
    define(
        "",
        "text",
        {
            "block_state": (
                "State",
                "released: in the window. released later: after the window. never released: not in the trace. "
                "allocated before: before the window. unpaired: one event is missing.",
            ),
            "allocation_step": ("Step", "Profiler step of the allocation."),
            "matched_by": (
                "Matched by",
                "address and time: same allocation in the trace. time: operator running at that microsecond.",
            ),
            "growth_confidence": (
                "Confidence",
                "high: four or more steps of even growth (0.9). medium: three or more steps. low: other cases.",
            ),
            "fragmentation_cause": (
                "Cause",
                (
                    "reserved before: no growth in the window. changing sizes, gaps between blocks: growth "
                    "despite free memory. one large block: exceeds free memory. more than was requested: other "
                    "cases."
                ),
            ),
        },
    ),
    define(
        "",
        "bool",
        {
            "outlives_step": ("Outlives step", "The block outlives its allocation step."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "count",
        {
            "allocation_count": (
                "Allocations",
                "Allocations of the operator and its children; nested calls count once.",
            ),
            "self_allocation_count": ("Self allocations", "Allocations of the operator itself."),
            "allocations": ("Allocations", "Allocation events."),
            "blocks": ("Blocks", "Live blocks."),
            "kept_blocks": ("Retained blocks", "Blocks allocated in the step and not released by its end."),
            "kept_to_end_blocks": ("Never released blocks", "Retained blocks without a release in the trace."),
            "growth_steps": ("Steps", "Compared steps."),
            "growth_blocks": ("Blocks per step", "Never released blocks per compared step."),
            "gap_growths": (
                "Growth despite free memory",
                "Rises of reserved memory although enough bytes were free.",
            ),
            "shapes": ("Shapes", "Distinct input shapes of allocating calls in the compared steps."),
            "varying_shapes": ("Varying shapes", "Shapes missing in at least one compared step."),
            "varying_allocations": ("Varying allocations", "Allocations made with varying shapes."),
            "varying_calls": ("Driver calls", "Driver memory calls made with varying shapes."),
            "distinct_sizes": ("Sizes", "Distinct sizes of live blocks."),
            "block_number": ("Block", "Block number on its device, in order of first events."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "bytes",
        {
            "size_increase_bytes": (
                "Size increase",
                "Allocated minus released bytes, including nested operators.",
            ),
            "self_size_increase_bytes": ("Self increase", "Allocated minus released bytes of the operator itself."),
            "allocation_bytes": ("Allocation size", "Allocated bytes, including nested operators."),
            "self_allocation_bytes": ("Self allocation size", "Allocated bytes of the operator itself."),
            "block_bytes": ("Size", "Allocated size of the block."),
            "live_bytes": ("Live", "Bytes of blocks live at the peak or selected time."),
            "peak_allocated_bytes": ("Peak allocated", "Largest allocated memory."),
            "in_use_bytes": ("Peak in use", "Largest device memory in use, over all processes."),
            "unreleased_bytes": ("Unreleased", "Bytes allocated in the window and never released."),
            "kept_bytes": ("Retained", "Bytes allocated in the step and not released by its end."),
            "kept_to_end_bytes": ("Never released", "Retained bytes without a release in the trace."),
            "growth_bytes": ("Growth per step", "Never released bytes per compared step."),
            "owner_growth_bytes": ("Growth of this operator", "Growth per step of the named operator and line."),
            "cache_bytes": ("Retained", "Retained bytes at the start of the last step."),
            "unused_reserved_bytes": (
                "Reserved, unused",
                "Peak reserved minus the most allocated during that peak.",
            ),
            "gap_growth_bytes": (
                "Growth despite free memory",
                "Bytes reserved although enough bytes were free.",
            ),
            "varying_bytes": ("Varying bytes", "Bytes allocated with varying shapes."),
            "peak_without_bytes": ("Peak without it", "Peak allocated without this and similar blocks."),
            "live_before_bytes": ("Live before", "Allocated bytes at the start of the window."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ns",
        {
            "moment_ns": ("Time", "Time since the first event."),
            "allocated_at_ns": ("Allocated at", "Allocation time, since the first event."),
            "released_at_ns": ("Released at", "Release time, since the first event."),
            "varying_calls_ns": ("Driver call time", "Host time of these driver calls."),
            "lifetime_ns": ("Lifetime", "Release time minus allocation time."),
            "peak_time_ns": ("Peak at", "Time of the allocated peak, since the first event."),
            "peak_reserved_time_ns": ("Peak reserved at", "Time of the reserved peak, since the first event."),
        },
    ),
    define(
        "",
        "ns",
        {
            "clock_apart_ns": (
                "Clock difference",
                "Allocation time in the snapshot minus the nearest time in the trace.",
            ),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ratio",
        {
            "unused_reserved_ratio": ("Reserved, unused", "Unused reserved bytes divided by peak reserved bytes."),
            "varying_calls_ratio": (
                "Varying shapes",
                "Driver call time with varying shapes divided by driver call time.",
            ),
            "varying_sizes_ratio": ("Varying sizes", "Share of allocated bytes whose size is missing in some steps."),
            "peak_drop_ratio": ("Peak reduction", "1 - peak without it / peak allocated."),
            "fragmentation": ("Fragmentation", "1 - allocated / reserved at the allocated peak."),
        },
    ),
)
