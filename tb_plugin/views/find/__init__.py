"""The view ``find``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry

VIEW = ViewEntry(
    __name__,
    "find",
    "Find",
    order=400,
    model=TRACE,
    traits=Traits("Ask", "detail", whole=""),
)
