"""Metrics of blocks, levels and allocations in traces."""

from __future__ import annotations

from tb_plugin.analysis.device_memory.metrics import METRICS as OF_DEVICES
from tb_plugin.analysis.metrics import CHOSEN_WINDOW, define

_WHAT = {
    "allocated": "given to whoever asked",
    "active": "given, or released and not yet back in the pool",
    "reserved": "held from the driver",
}

_OF_TOTALS = (
    define(
        "",
        "text",
        {
            "allocator": (
                "Allocator",
                "Who gives the memory, as the profile names it: an allocator, several added up, or all of the process.",
            ),
            "component": (
                "Component",
                "Part of the software that holds memory of the device, as the profile names it. One with the name of an "
                "allocator is another number: what that part holds itself, as its own table states.",
            ),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "count",
        {
            "stated_samples": ("Samples", "Totals that the profile states of it."),
            "stated_release_samples": (
                "Only releases",
                "Samples with a negative number: only a release was seen, and nobody knows how much is held.",
            ),
            "components": ("Components", "Parts of the software of which the profile states what they hold."),
            "zero_components": ("Held nothing", "Of these, parts that held nothing at any time."),
            "release_components": ("Only released", "Of these, parts of which only releases were seen."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "bytes",
        {
            **{f"stated_{key}_bytes": (key.capitalize(), f"Bytes {what}, as the profile states them.")
               for key, what in _WHAT.items()},
            **{f"stated_peak_{key}_bytes": (f"Peak {key}", f"Most bytes {what} at a time, as the profile states them.")
               for key, what in _WHAT.items()},
            "signed_bytes": (
                "Recorded size",
                "Size as the profile states it: negative where the block was released here and allocated before.",
            ),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ns",
        {
            **{f"stated_peak_{key}_at_ns": (f"Peak {key} at", "When it was first reached, from the begin of the trace.")
               for key in _WHAT},
            "pooled_at_ns": (
                "Back in the pool at",
                "Time at which the memory of the block could be given again, since the first event of the trace.",
            ),
        },
    ),
)  # fmt: skip


METRICS = OF_DEVICES.adding(
    *_OF_TOTALS,
    define(
        "",
        "code",
        {
            "caller": ("Called by", "Operator around the one that allocated."),
            "outermost_operator": (
                "Outermost operator",
                "The one around which there is no other, of the operators that were open when it was allocated.",
            ),
            "allocation_frame": (
                "Python",
                "Line of Python that allocated it: that under which the innermost operator or Python call began that was "
                "open on the thread; of a backward operator without one, that of its forward operator.",
            ),
            "allocation_phase": (
                "Phase",
                "Innermost annotation (not a step) open when it was allocated, on the thread or on the one that it works "
                "for; names that differ in numbers alone are one.",
            ),
        },
    ),
    define(
        "",
        "text",
        {
            "block_state": (
                "State",
                "released: allocated and released in the window; released later: after it; never released in the trace; "
                "allocated before the window (or the trace); unpaired: the other event is not recorded.",
            ),
            "allocation_step": ("Step", "Profiler step in which it was allocated."),
            "matched_by": (
                "Matched by",
                "address and time: the trace holds this allocation; time: an operator was open all through its microsecond.",
            ),
            "growth_confidence": (
                "Confidence",
                "high: four steps or more, the least growth at least 0.9 of the most; medium: three steps or more; else low.",
            ),
            "fragmentation_cause": (
                "Cause",
                "reserved before: it did not grow to its peak in the window; changing sizes or gaps between blocks: it grew "
                "although as many bytes lay free; one large block: for more than lay free; more than was asked for.",
            ),
        },
    ),
    define(
        "",
        "bool",
        {
            "outlives_step": (
                "Outlives its step",
                "It was not released before the step ended in which it was allocated.",
            ),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "count",
        {
            "allocation_count": (
                "Allocations",
                "Allocations by it and everything nested in it; of nested calls of the same name the outermost counts.",
            ),
            "self_allocation_count": ("Self allocations", "Allocations by it directly."),
            "allocations": ("Allocations", "Events that got memory."),
            "blocks": ("Blocks", "Blocks that were live; empty where nobody counted them."),
            "kept_blocks": ("Blocks kept", "Blocks that were allocated in the step and not released before it ended."),
            "kept_to_end_blocks": (
                "Blocks never released",
                "Of these, blocks that nothing in the trace releases; unknown of its last step.",
            ),
            "growth_steps": (
                "Steps",
                "Whole steps that were compared: without the last one and, of four or more, without the first.",
            ),
            "growth_blocks": ("Blocks a step", "Blocks that nothing releases, a step on average."),
            "gap_growths": (
                "Growth beside free memory",
                "How often reserved memory grew although at least as many bytes as were asked for lay free.",
            ),
            "shapes": ("Shapes", "Different input shapes with which it allocated in the steps that are compared."),
            "varying_shapes": ("Not in every step", "Of these, shapes that not every one of these steps has."),
            "varying_allocations": ("Allocations for them", "Allocations by it with such shapes."),
            "varying_calls": (
                "Driver calls for them",
                "Memory allocation calls to the driver while it was open with such shapes.",
            ),
            "distinct_sizes": ("Sizes", "Different sizes of the blocks that were live."),
            "block_number": ("Block", "Number of the block on its device, by its first event."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "bytes",
        {
            "size_increase_bytes": (
                "Size increase",
                "Bytes allocated less bytes released, by it and everything nested in it.",
            ),
            "self_size_increase_bytes": ("Self increase", "Bytes allocated less bytes released, by it directly."),
            "allocation_bytes": ("Allocation size", "Bytes allocated by it and everything nested in it."),
            "self_allocation_bytes": ("Self allocation size", "Bytes allocated by it directly."),
            "block_bytes": ("Size", "Bytes of the block, as the allocator rounded them."),
            "live_bytes": ("Live", "Bytes of the blocks that were live at the peak, or at the chosen moment."),
            "peak_allocated_bytes": ("Peak allocated", "Most bytes allocated at a time, and the operator that did it."),
            "in_use_bytes": (
                "Peak in use",
                "Most bytes in use of all memory of the device, of a CPU of the machine, whoever uses them.",
            ),
            "unreleased_bytes": ("Unreleased", "Bytes allocated in the window and not released before the trace ends."),
            "kept_bytes": ("Kept", "Bytes that were allocated in the step and not released before it ended."),
            "kept_to_end_bytes": (
                "Never released",
                "Of these, bytes that nothing in the trace releases; unknown of its last step.",
            ),
            "growth_bytes": ("Growth a step", "Bytes that nothing releases, a step on average."),
            "owner_growth_bytes": ("Growth a step by it", "What the named operator and line add to that."),
            "cache_bytes": ("Held", "Bytes of these blocks when the last step began."),
            "unused_reserved_bytes": (
                "Reserved and unused",
                "Peak reserved less the most that was allocated at any moment at which as much was reserved.",
            ),
            "gap_growth_bytes": ("Grown beside free memory", "Bytes by which reserved memory grew then."),
            "varying_bytes": ("Allocated for them", "Bytes allocated by it with shapes that not every step has."),
            "peak_without_bytes": (
                "Peak without it",
                "Peak allocated without the block and those like it: of its size, operator, module and line.",
            ),
            "live_before_bytes": ("Live before", "Bytes that were allocated when the window began."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ns",
        {
            "moment_ns": ("Time", "Time since the first event of the trace."),
            "allocated_at_ns": ("Allocated at", "Time of the allocation since the first event of the trace."),
            "released_at_ns": ("Released at", "Time of the release since the first event of the trace."),
            "varying_calls_ns": ("Time in driver calls", "Time on the host of these driver calls."),
            "lifetime_ns": ("Lifetime", "Release less allocation."),
            "peak_time_ns": ("Peak at", "Time of the peak since the first event of the trace."),
            "peak_reserved_time_ns": ("Peak reserved at", "First time at which most was reserved."),
        },
    ),
    define(
        "",
        "ns",
        {
            "clock_apart_ns": (
                "Clocks apart",
                "From the microsecond of the allocation to the nearest time that the trace states; 0 where it lies in it.",
            ),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ratio",
        {
            "unused_reserved_ratio": ("Reserved and unused", "Of peak reserved."),
            "varying_calls_ratio": ("For changing shapes", "Share of the time of the driver calls of these steps."),
            "varying_sizes_ratio": (
                "Changing sizes",
                "Share of the bytes that steps allocate in blocks of a size that not every step allocates.",
            ),
            "peak_drop_ratio": ("Lower without it", "1 - peak without it / peak allocated."),
            "fragmentation": ("Fragmentation", "1 - allocated / reserved at the peak of allocated."),
        },
    ),
)
