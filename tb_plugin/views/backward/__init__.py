"""The ``backward`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.advice import todo_of
    from tb_plugin.analysis.backward import backward_operators

    if len(backward_operators(trace).row):
        return None
    return Missing("The trace contains no backward pass.", todo_of(trace, "view.backward"))


VIEW = ViewEntry(
    __name__,
    "backward",
    "Backward",
    order=66,
    model=TRACE,
    traits=Traits("operators", phase_note="", tables=("backward_operators", "backward_lines")),
    missing=_missing,
    http=ViewText(
        payloads=(
            "`summary` (Figures), `answer` (Notices: the row with the most time, and the row with the "
            "longest wait; absent without backward operators in the selection), `backward_operators` "
            "(Table), `recomputed` (Table; absent without recomputation)."
        ),
        tables=(
            "`backward_operators` (by backward operator, forward operator, module path and line), "
            "`backward_lines` (forward and backward by line), `recomputed` (recomputed work by module; "
            "absent without recomputation)."
        ),
    ),
)
