"""The ``serving`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.served_steps import is_served

    if is_served(trace):
        return None
    return Missing("The steps do not report server work.", trace.recorder.todo("view.serving"))


VIEW = ViewEntry(
    __name__,
    "serving",
    "Serving",
    order=30,
    model=TRACE,
    traits=Traits(
        "serving",
        hidden=True,
        phase_note="Serving covers whole steps, not phases. Select only prefill or decode steps instead.",
        tables=("serving_steps", "serving_modes", "serving_classes"),
    ),
    missing=_missing,
    http=ViewText(
        parameters="`steady` (`all` covers all steps; default: the steady state, if no steps are selected).",
        payloads=(
            "`summary` (Figures), `answer` (Notices), `times` (Breakdown: time by mode; absent with one mode), "
            "`classes` (kernels by mode: Series, stacked bars; with one mode a Breakdown), "
            "`by_batch`, `by_tokens` (Scatter: step time; absent if fewer than two steps report them), "
            "`serving_modes`, `serving_steps`, `serving_classes` (Tables)."
        ),
        tables="`serving_steps`, `serving_modes`, `serving_classes`.",
    ),
)
