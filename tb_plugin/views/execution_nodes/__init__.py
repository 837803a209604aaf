"""The view ``execution_nodes``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import EXECUTION_TRACE, ViewEntry

VIEW = ViewEntry(
    __name__,
    "execution_nodes",
    "Execution trace",
    order=310,
    model=EXECUTION_TRACE,
    traits=Traits("Work", whole="An execution trace has no phases."),
)
