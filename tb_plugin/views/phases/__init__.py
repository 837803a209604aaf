"""The ``phases`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.annotations import annotation_rows
    from tb_plugin.analysis.range_traces import is_range_trace

    if annotation_rows(trace).any():
        return None
    if is_range_trace(trace):
        return Missing("The trace contains no named ranges.", "")
    return Missing("The trace contains no annotations.", trace.recorder.todo("view.phases"))


VIEW = ViewEntry(
    __name__,
    "phases",
    "Phases",
    order=75,
    model=TRACE,
    traits=Traits("model", phase_note="", tables=("phases", "phase_steps")),
    missing=_missing,
    http=ViewText(
        payloads=(
            "`names` (Figures: the pattern, and the resulting phase names), `tree` (Tree), "
            "`phase_host_in_step`, `phase_device_in_step` (Series, one line per phase over the steps; "
            "absent with fewer than two steps; `phase_device_in_step` is also absent without a device), "
            "`phases` (Table)."
        ),
        tables="`phases` (per phase, over all its calls), `phase_steps` (per phase and step).",
    ),
)
