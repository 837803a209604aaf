"""The ``categories`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import CATEGORY_MEMORY, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "categories",
    "Memory by category",
    order=180,
    model=CATEGORY_MEMORY,
    traits=Traits("memory", cached=True),
    http=ViewText(
        parameters=(
            "`start_ns`, `end_ns`, `at_ns` (time of the table and the bar, default the peak), `width` "
            "(columns of the curve, default 600)."
        ),
        payloads=(
            "For files of `export_memory_timeline`. `summary` (Figures), `answer` (Notices), `curve` (Series, "
            "stacked_area), `composition` (Breakdown), `data_quality` (Notices), `memory_categories` (Table)."
        ),
        tables="`memory_categories`.",
    ),
)
