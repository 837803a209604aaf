"""The view ``backward``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.advice import todo_of
    from tb_plugin.analysis.backward import backward_operators

    if len(backward_operators(trace).row):
        return None
    return Missing("The trace holds no backward pass.", todo_of(trace, "view.backward"))


VIEW = ViewEntry(
    __name__,
    "backward",
    "Backward",
    order=100,
    model=TRACE,
    traits=Traits("Work", whole="", tables=("backward_operators", "backward_lines")),
    missing=_missing,
)
