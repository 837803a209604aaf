"""The view ``idle``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.busy_intervals import device_busy
    from tb_plugin.analysis.reported_steps import missing_computation

    if not device_busy(trace):
        return Missing("The trace holds no work of a device.", trace.recorder.todo("view.idle"))
    if missing_computation(trace) is not None:
        return Missing("Kernels are missing that the profile states: nobody knows when the device was idle.", "")
    return None


VIEW = ViewEntry(
    __name__,
    "idle",
    "Idle time",
    order=160,
    model=TRACE,
    traits=Traits("Time", whole="Idle time belongs to devices and steps, not to a phase.", tables=("idle_causes",)),
    missing=_missing,
)
