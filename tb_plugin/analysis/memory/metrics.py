"""Metrics of memory blocks and levels in traces and snapshots."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN_WINDOW, SHARED

COUNTED = "steps after the first, without the last ones"

METRICS = SHARED.defining(
    {
        (CHOSEN_WINDOW, "count"): {
            "reserved_cycles": ("Release cycles", "Decreases of reserved memory, each followed by an increase."),
            "stated_samples": ("Samples", "Reported memory totals."),
            "stated_release_samples": ("Releases only", "Samples with a negative total."),
            "components": ("Components", "Software components with reported memory."),
            "zero_components": ("Empty components", "Components that always have zero memory."),
            "release_components": ("Releases only", "Components that report only releases."),
            "allocation_count": (
                "Allocations",
                "Allocations of the operator and its children; nested calls count once.",
            ),
            "self_allocation_count": ("Self allocations", "Allocations of the operator itself."),
            "allocations": ("Allocations", "Allocation events."),
            "blocks": ("Blocks", "Live blocks."),
            "kept_blocks": ("Retained blocks", "Blocks allocated in the step and unreleased at its end."),
            "kept_to_end_blocks": ("Never released blocks", "Retained blocks without a release in the trace."),
            "growth_steps": ("Steps", "Compared steps."),
            "gap_growths": (
                "Growth despite free memory",
                "Increases of reserved memory although enough bytes were free.",
            ),
            "shapes": ("Shapes", "Distinct input shapes of allocating calls in the compared steps."),
            "varying_shapes": ("Varying shapes", "Shapes missing in at least one compared step."),
            "varying_allocations": ("Varying allocations", "Allocations made with varying shapes."),
            "varying_calls": ("Driver calls", "Driver memory calls made with varying shapes."),
            "distinct_sizes": ("Sizes", "Distinct sizes of live blocks."),
            "block_number": ("Block", "Block number on its device, in order of first events."),
        },
        (CHOSEN_WINDOW, "bytes"): {
            "peak_reserved_bytes": ("Peak reserved", "Largest reserved memory."),
            "returned_bytes": ("Returned", "Sum of all decreases of reserved memory."),
            "room_bytes": ("Never reserved", "Device memory minus peak reserved."),
            "stated_allocated_bytes": ("Allocated", "Reported bytes that are allocated."),
            "stated_active_bytes": ("Active", "Reported bytes that are allocated or waiting to be freed."),
            "stated_reserved_bytes": ("Reserved", "Reported bytes that are reserved from the driver."),
            "stated_peak_allocated_bytes": ("Peak allocated", "Reported peak of bytes that are allocated."),
            "stated_peak_active_bytes": (
                "Peak active",
                "Reported peak of bytes that are allocated or waiting to be freed.",
            ),
            "stated_peak_reserved_bytes": (
                "Peak reserved",
                "Reported peak of bytes that are reserved from the driver.",
            ),
            "signed_bytes": ("Recorded size", "Reported size; negative when an earlier block is released."),
            "size_increase_bytes": ("Size increase", "Allocated minus released bytes, including nested operators."),
            "self_size_increase_bytes": ("Self increase", "Allocated minus released bytes of the operator itself."),
            "allocation_bytes": ("Allocation size", "Allocated bytes, including nested operators."),
            "self_allocation_bytes": ("Self allocation size", "Allocated bytes of the operator itself."),
            "block_bytes": ("Size", "Allocated size of the block."),
            "live_bytes": ("Live", "Bytes of blocks live at the peak or selected time."),
            "peak_allocated_bytes": ("Peak allocated", "Largest allocated memory."),
            "in_use_bytes": ("Peak in use", "Largest device memory in use, over all processes."),
            "unreleased_bytes": ("Unreleased", "Bytes allocated in the window and never released."),
            "kept_bytes": ("Retained", "Bytes allocated in the step and unreleased at its end."),
            "kept_to_end_bytes": ("Never released", "Retained bytes without a release in the trace."),
            "cache_bytes": ("Retained", "Retained bytes at the start of the last step."),
            "unused_reserved_bytes": (
                "Reserved, unused",
                "Peak reserved minus the largest allocated memory during that peak.",
            ),
            "gap_growth_bytes": ("Growth despite free memory", "Bytes reserved although enough bytes were free."),
            "varying_bytes": ("Varying bytes", "Bytes allocated with varying shapes."),
            "peak_without_bytes": ("Peak without block", "Peak allocated without this block and similar blocks."),
            "part_bytes": ("Largest part", "Bytes of the largest part of the allocated memory."),
            "next_part_bytes": ("Second part", "Bytes of the second largest part."),
            "live_before_bytes": ("Live before", "Allocated bytes at the start of the window."),
        },
        (CHOSEN_WINDOW, "ns"): {
            "driver_memory_ns": ("Driver calls", "Host time in driver memory calls, excluding set-up."),
            "stated_peak_allocated_at_ns": ("Peak allocated at", "Earliest time of the peak, since trace start."),
            "stated_peak_active_at_ns": ("Peak active at", "Earliest time of the peak, since trace start."),
            "stated_peak_reserved_at_ns": ("Peak reserved at", "Earliest time of the peak, since trace start."),
            "pooled_at_ns": ("Reusable at", "Time when the memory becomes reusable, since the first event."),
            "moment_ns": ("Time", "Time since the first event."),
            "allocated_at_ns": ("Allocated at", "Allocation time, since the first event."),
            "released_at_ns": ("Released at", "Release time, since the first event."),
            "varying_calls_ns": ("Driver call time", "Host time of these driver calls."),
            "lifetime_ns": ("Lifetime", "Release time minus allocation time."),
            "peak_time_ns": ("Peak at", "Time of peak allocated memory, since the first event."),
            "peak_reserved_time_ns": ("Peak reserved at", "Time of peak reserved memory, since the first event."),
        },
        (CHOSEN_WINDOW, "ratio"): {
            "room_ratio": ("Never reserved", "Never reserved memory divided by device memory."),
            "unused_reserved_ratio": ("Reserved, unused", "Unused reserved bytes divided by peak reserved bytes."),
            "varying_calls_ratio": ("Varying shapes", "Share of driver call time with varying shapes."),
            "varying_sizes_ratio": (
                "Varying sizes",
                "Share of bytes in allocations whose size is missing in some steps.",
            ),
            "peak_drop_ratio": ("Peak reduction", "1 - peak without block / peak allocated."),
            "part_ratio": ("Share", "Largest part divided by allocated memory."),
            "next_part_ratio": ("Share", "Second largest part divided by allocated memory."),
            "fragmentation": ("Fragmentation", "1 - allocated / reserved at the allocated peak."),
        },
        ("", "text"): {
            "part": ("Largest part", "Category or operator of the largest part."),
            "next_part": ("Second part", "Category or operator of the second largest part."),
            "allocator": ("Allocator", "Reported allocator or process, or the sum of all allocators."),
            "component": ("Component", "Reported software component that retains device memory."),
            "block_state": (
                "State",
                "released: in the window. released later: after the window. never released: not in the trace. "
                "allocated before: before the window. unpaired: contradicts other events.",
            ),
            "allocation_step": ("Step", "Profiler step of the allocation."),
            "matched_by": (
                "Matched by",
                "address and time: same allocation in the trace. time: operator running at that microsecond.",
            ),
            "fragmentation_cause": (
                "Cause",
                "reserved before: no growth in the window. changing sizes, gaps between blocks: growth despite free "
                "memory. one large block: exceeds free memory. more than was requested: other cases.",
            ),
        },
        ("", "code"): {
            "caller": ("Called by", "Operator that calls the allocating operator."),
            "outermost_operator": ("Top-level operator", "Top-level operator running at the allocation."),
            "allocation_frame": ("Python line", "Python line of the allocation."),
            "allocation_phase": ("Phase", "Innermost annotation around the allocation, except step annotations."),
        },
        ("", "bool"): {"outlives_step": ("Outlives step", "The block outlives its allocation step.")},
        ("", "ns"): {
            "clock_apart_ns": (
                "Clock difference",
                "Allocation time in the snapshot minus the nearest time in the trace.",
            )
        },
        (COUNTED, "bytes"): {
            "step_growth_bytes": ("Per step", "Bytes per step that remain allocated after the last step."),
            "left_bytes": ("Remaining", "Bytes of these steps that remain allocated after the last step."),
        },
        (COUNTED, "number"): {
            "step_growth_blocks": ("Blocks per step", "Blocks per step that remain allocated after the last step.")
        },
        (COUNTED, "count"): {
            "growing_steps": ("Growing steps", "Steps with unreleased blocks."),
            "counted_steps": ("Steps", "Analyzed steps."),
            "left_blocks": ("Remaining blocks", "Blocks of these steps that remain allocated after the last step."),
        },
        (COUNTED, "ratio"): {
            "leak_confidence": ("Confidence", "Share of growing steps multiplied by the evenness of their growth.")
        },
    }
)
