"""The ``critical_path`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.model.trace.schema import EventKind, of_kind

    if not of_kind(trace.kind, EventKind.OPERATOR, EventKind.KERNEL).any():
        return Missing("The trace contains no operators and no kernels.", trace.recorder.todo("view.operators"))
    if not len(trace.steps.label):
        return Missing("The trace has no steps.", trace.recorder.todo("steps_missing"))
    return None


VIEW = ViewEntry(
    __name__,
    "critical_path",
    "Critical path",
    order=70,
    model=TRACE,
    traits=Traits("operators", phase_note="The critical path belongs to steps, not to phases."),
    missing=_missing,
    http=ViewText(
        payloads=(
            "`summary` (Figures: the part of the step time that the path explains), `answer` (Notices), `steps` "
            "(Series: time by kind and step; absent with one step), `critical_by_kind` (Breakdown), `critical_events` "
            "(Table)."
        ),
        tables="`critical_events` (by event and kind), `critical_operators`, `critical_modules`.",
    ),
)
