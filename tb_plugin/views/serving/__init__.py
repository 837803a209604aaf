"""The view ``serving``."""

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
    return Missing("No step says what a server did in it.", trace.recorder.todo("view.serving"))


VIEW = ViewEntry(
    __name__,
    "serving",
    "Serving",
    order=30,
    model=TRACE,
    traits=Traits(
        "Summary",
        hidden=True,
        whole="It is about steps: choose those of a mode.",
        tables=("serving_steps", "serving_modes", "serving_classes"),
    ),
    missing=_missing,
    http=ViewText(
        parameters="`steady` (`all`: figures are about all steps; default: the steady state, where no steps are chosen).",
        payloads=(
            "`summary` (Figures), `answer` (Notices), `times` (Breakdown: time by mode), `classes` (Series, "
            "stacked bars: kernels by mode), `by_batch`, `by_tokens` (Scatter: step time; absent where fewer than "
            "two steps state it), `serving_modes`, `serving_steps`, `serving_classes` (Tables)."
        ),
        tables="`serving_steps`, `serving_modes`, `serving_classes`.",
    ),
)
