"""Metrics of memory by category."""

from __future__ import annotations

from tb_plugin.analysis.memory_categories import MEANINGS, TITLES
from tb_plugin.analysis.metrics import CHOSEN_WINDOW, SHARED, WHOLE, define

WINDOW = CHOSEN_WINDOW.replace(" or steps", "").replace("trace", "recording")
RECORDING = WHOLE.replace("trace", "recording")

METRICS = SHARED.adding(
    define("", "text", {"tensor_category": ("Category", "What the memory is for, as the profiler judged.")}),
    define(
        WINDOW,
        "bytes",
        {
            "categories_peak_bytes": ("Peak", "Most bytes of all categories together at a time."),
            "categories_now_bytes": ("Total", "Bytes of all categories at the chosen moment."),
            "categories_before_bytes": (
                "There before",
                "Bytes that were there before the recording: the profiler saw them in use, and never saw them allocated.",
            ),
            "category_bytes": ("Bytes", "Bytes of the category at the peak, or at the chosen moment."),
            "category_peak_bytes": ("Own maximum", "Most bytes of the category at a time."),
            "category_allocated_bytes": (
                "Allocated in all",
                "Bytes of all blocks that were allocated as this category while recording.",
            ),
            "rest_bytes": ("Others", "Bytes of all other categories at the peak."),
            "category_missing_bytes": (
                "Never allocated",
                "Bytes that were released without having been allocated: they count as there before.",
            ),
        },
    ),
    define(
        WINDOW,
        "ratio",
        {"category_share": ("Share", "Bytes of the category over those of all at that time.")},
    ),
    define(
        WINDOW,
        "ns",
        {
            "categories_time_ns": ("Time", "Time since the first change of the recording."),
            "categories_peak_time_ns": ("Peak at", "First time at which most bytes were there."),
            "category_peak_time_ns": ("Own maximum at", "First time at which most of the category was there."),
        },
    ),
    define(
        WINDOW,
        "bytes",
        {f"{category}_bytes": (title, MEANINGS[category]) for category, title in TITLES.items()},
    ),
)
