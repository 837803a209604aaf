"""The ``whatif`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText, missing_steps

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable

TRUNCATED = "The file is truncated, so the end of the last step is unknown."


def _missing(trace: TraceTable) -> Missing | None:
    if (found := missing_steps(trace)) is not None:
        return found
    if not trace.report.complete:
        return Missing(TRUNCATED, "")
    return None


VIEW = ViewEntry(
    __name__,
    "whatif",
    "Simulation",
    order=69,
    model=TRACE,
    traits=Traits("operators", phase_note=""),
    missing=_missing,
    http=ViewText(
        payloads=(
            "`answer` (Notices about `answer`: the new step time, or the change that saves most; absent without a "
            "change), `summary` (Figures: step time), `whatif` (Table)."
        ),
        tables=(
            "`whatif` (the changes of `scale`, each alone and all together; then the ten that save most. Operators "
            "nested in an operator with the same work are left out)."
        ),
        parameters=(
            "`scale=KIND:NAME=FACTOR` (repeatable) changes the time of operators, modules, kernels, kernel classes or of "
            "`communication`, `copies`, `data_loading`, `launches`. "
            "If several changes shorten the same work, only the largest reduction counts."
        ),
    ),
)
