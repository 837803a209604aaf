"""The ``idle`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.busy_intervals import device_busy
    from tb_plugin.analysis.reported_steps import missing_computation

    if not device_busy(trace):
        return Missing("The trace contains no device work.", trace.recorder.todo("view.idle"))
    if missing_computation(trace) is not None:
        return Missing("Kernels reported by the profiler are missing, so idle time is unknown.", "")
    return None


VIEW = ViewEntry(
    __name__,
    "idle",
    "Idle time",
    order=47,
    model=TRACE,
    traits=Traits(
        "idle",
        tab="Causes",
        phase_note="Idle time is attributed to devices and steps, not to phases.",
        tables=("idle_causes",),
    ),
    missing=_missing,
    http=ViewText(
        payloads=(
            "Causes of idle time in the selected steps. `summary` (Figures), `answer` (Notices), `steps` "
            "(Series, stacked bars by cause; absent without recorded steps), `idle_by_cause` (Breakdown; "
            "absent with one cause), `idle_groups` (Table)."
        ),
        tables=(
            "`idle_groups` (by cause, CPU activity and line), `idle_causes`, `idle_steps` (by step and device), "
            "`idle_pieces` (the 200 longest per cause and device)."
        ),
    ),
)
