"""The view ``allocated_in``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry

VIEW = ViewEntry(
    __name__,
    "allocated_in",
    "Allocated in",
    order=370,
    model=TRACE,
    traits=Traits("Ask", "detail"),
)
