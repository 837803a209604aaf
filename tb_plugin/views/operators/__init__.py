"""The ``operators`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.graphs.origins import origins_of
    from tb_plugin.model.trace.reported_operators import reported_operators
    from tb_plugin.model.trace.schema import EventKind, of_kind

    if (
        of_kind(trace.kind, EventKind.OPERATOR).any()
        or len(origins_of(trace).scopes)
        or reported_operators(trace.reported_tables) is not None
    ):
        return None
    return Missing("The trace contains no operators.", trace.recorder.todo("view.operators"))


VIEW = ViewEntry(
    __name__,
    "operators",
    "Operators",
    order=50,
    model=TRACE,
    traits=Traits("operators", phase_note="", tables=("operators", "operators_by_shape")),
    missing=_missing,
    http=ViewText(
        payloads=(
            "`answer` (Notices: one sentence), "
            "`device_self`, `device_total`, `host_self`, `host_total` (Breakdown, donut, top 10 and the "
            "rest: self time of all operators, total time of top-level ones; device donuts are absent "
            "without device time), `no_operator` (Breakdown: why device time has no operator; absent without "
            "any), `replayed` (Breakdown: how operators of replayed graphs were matched; absent without "
            "any), `left_out` (Figures: runtime calls that Host self excludes; absent without any), "
            "`operators` (Table)."
        ),
        tables=(
            "`operators`, `operators_outermost`, `operators_by_shape`, `no_operator`, `stacks` (use `where=name:...`)."
        ),
    ),
)
