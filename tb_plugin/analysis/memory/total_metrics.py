"""The metrics of what a profile itself states of memory: totals of several allocators, parts of the software, sizes."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN_WINDOW, define

_WHAT = {
    "allocated": "allocated",
    "active": "allocated or pending a free",
    "reserved": "reserved from the driver",
}

OF_TOTALS = (
    define(
        "",
        "text",
        {
            "allocator": ("Allocator", "Reported allocator, sum of allocators, or process."),
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
            "zero_components": ("Empty components", "Components with zero memory throughout."),
            "release_components": ("Releases only", "Components with releases only."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "bytes",
        {
            **{f"stated_{key}_bytes": (key.capitalize(), f"Reported bytes {what}.") for key, what in _WHAT.items()},
            **{
                f"stated_peak_{key}_bytes": (f"Peak {key}", f"Largest reported bytes {what}.")
                for key, what in _WHAT.items()
            },
            "signed_bytes": ("Recorded size", "Reported size, negative for the release of an earlier block."),
        },
    ),
    define(
        CHOSEN_WINDOW,
        "ns",
        {
            **{
                f"stated_peak_{key}_at_ns": (
                    f"Peak {key} at",
                    "First time of the peak since trace start.",
                )
                for key in _WHAT
            },
            "pooled_at_ns": ("Reusable at", "Time at which the memory is reusable, since the first event."),
        },
    ),
)
