"""The view ``flows``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry

VIEW = ViewEntry(
    __name__,
    "flows",
    "Flows",
    order=410,
    model=TRACE,
    traits=Traits("Ask", "detail"),
)
