"""The ``roofline`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind

    if not of_kind(trace.kind, EventKind.KERNEL).any():
        return Missing("The trace contains no kernels.", trace.recorder.todo("view.kernels"))
    if not (trace.operators.shapes != MISSING).any():
        return Missing(
            "The trace does not contain the shapes of operator inputs.", trace.recorder.todo("shapes_missing")
        )
    return None


VIEW = ViewEntry(
    __name__,
    "roofline",
    "Roofline",
    order=68,
    model=TRACE,
    traits=Traits("operators", phase_note=""),
    missing=_missing,
    http=ViewText(
        payloads=(
            "`summary` (Figures: the share of kernel time with a formula, the rates and the peaks of the devices), "
            "`answer` (Notices: the row that loses most time against the limit; absent without known peaks), "
            "`chart` (Scatter: the rate over FLOPs per byte, and the limits of the device; absent without FLOPs), "
            "`notes` (Notices: unknown peaks, and rates above the peak; absent without any), `roofline` (Table)."
        ),
        tables="`roofline` (FLOPs, bytes, rates and share of the peak by operator and input shape).",
    ),
)
