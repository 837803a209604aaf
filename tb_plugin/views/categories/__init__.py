"""The view ``categories``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import CATEGORY_MEMORY, ViewEntry

VIEW = ViewEntry(
    __name__,
    "categories",
    "Memory by category",
    order=180,
    model=CATEGORY_MEMORY,
    traits=Traits("Memory", kept=True),
)
