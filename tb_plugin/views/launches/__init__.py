"""The ``launches`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.model.trace.schema import EventKind

    if (trace.kind == EventKind.RUNTIME).any():
        return None
    return Missing("The trace contains no runtime calls.", trace.recorder.todo("view.launches"))


VIEW = ViewEntry(
    __name__,
    "launches",
    "Launches",
    order=48,
    model=TRACE,
    traits=Traits("idle", tab="Launches", phase_note="", tables=("runtime_calls", "runtime_calls_by_caller")),
    missing=_missing,
    http=ViewText(
        payloads=(
            "`launch_summary` (Figures), `launch_answer` (Notices), `queue_times` (Series, a histogram); these are "
            "absent without launches. `summary` (Figures), `longest_call` and "
            "`longest_caller` (Figures: the first row and its main caller; absent without calls), "
            "`runtime_calls` (Table)."
        ),
        tables=(
            "`runtime_calls`, `runtime_calls_by_caller`, `launch_operators`, `launch_kernels`, `late_launches`, "
            "`queue_depths`, `kernel_sequences`."
        ),
    ),
)
