"""The view ``findings``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.range_traces import is_range_trace

    if is_range_trace(trace):
        return Missing("The trace is not one of a training: no rule speaks about it.", "")
    return None


VIEW = ViewEntry(
    __name__,
    "findings",
    "Findings",
    order=20,
    model=TRACE,
    traits=Traits(
        "Summary",
        kept=True,
        whole="A finding says what a step would gain: it looks at whole steps.",
        tables=("savings",),
    ),
    missing=_missing,
)
