"""The metrics of what a profile itself states of memory: totals of several allocators, parts of the software, sizes."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN_WINDOW, define

_WHAT = {
    "allocated": "given to whoever asked",
    "active": "given, or released and not yet back in the pool",
    "reserved": "held from the driver",
}

OF_TOTALS = (
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
