"""Metrics of memory by category."""

from __future__ import annotations

from tb_plugin.analysis.memory_categories import MEANINGS, TITLES
from tb_plugin.analysis.metrics import CHOSEN_WINDOW, SHARED

WINDOW = CHOSEN_WINDOW.replace(" or steps", "").replace("trace", "recording")

METRICS = SHARED.defining(
    {
        ("", "text"): {"tensor_category": ("Category", "Memory category recorded by the profiler.")},
        (WINDOW, "bytes"): {
            "categories_peak_bytes": ("Peak", "Largest total memory of all categories."),
            "categories_before_bytes": ("Preexisting", "Bytes allocated before the recording."),
            "category_bytes": ("Bytes", "Bytes of the category at the peak or selected time."),
            "category_peak_bytes": ("Own peak", "Largest memory of the category."),
            "category_allocated_bytes": ("Total allocated", "Bytes of all blocks allocated as this category."),
            "rest_bytes": ("Other categories", "Bytes of all other categories at the peak."),
            "category_missing_bytes": ("Missing allocations", "Released minus allocated bytes, if positive."),
            **{f"{category}_bytes": (title, MEANINGS[category]) for category, title in TITLES.items()},
        },
        (WINDOW, "ratio"): {"category_share": ("Share", "Category bytes divided by bytes of all categories.")},
        (WINDOW, "ns"): {
            "categories_time_ns": ("Time", "Time since the first memory change."),
            "categories_peak_time_ns": ("Peak at", "Earliest time of the peak."),
            "category_peak_time_ns": ("Own peak at", "Earliest time of the category's peak."),
        },
    }
)
