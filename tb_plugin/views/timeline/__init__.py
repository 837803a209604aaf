"""The ``timeline`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    return None if len(trace) else Missing("The trace contains no events.", trace.recorder.todo("view.timeline"))


VIEW = ViewEntry(
    __name__,
    "timeline",
    "Timeline",
    order=40,
    model=TRACE,
    traits=Traits(
        "timeline",
        "picture",
        cached=True,
        phase_note=(
            "The timeline draws the events of all phases. Only search and highlights are limited to the selected phase."
        ),
    ),
    missing=_missing,
    http=ViewText(
        payloads=(
            "`timeline` (Timeline: lanes and levels of detail of the whole trace, independent of selected "
            "steps). `tiles` has the events. `out_of_memory` (Series: times and bytes of failed requests; "
            "absent without any)."
        )
    ),
)
