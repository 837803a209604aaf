"""The view ``memory``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    if len(trace.memory.time_ns) or len(trace.totals.time_ns) or len(trace.components.time_ns):
        return None
    return Missing("The trace holds no memory events.", trace.recorder.todo("view.memory"))


VIEW = ViewEntry(
    __name__,
    "memory",
    "Memory",
    order=170,
    model=TRACE,
    traits=Traits("Memory", whole="Memory is held beyond the phase that asks for it."),
    missing=_missing,
)
