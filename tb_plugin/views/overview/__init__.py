"""The view ``overview``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry

VIEW = ViewEntry(
    __name__,
    "overview",
    "Overview",
    order=10,
    model=TRACE,
    traits=Traits(
        "Summary", kept=True, whole="Its figures are those of whole steps and of devices.", tables=("steps",)
    ),
)
