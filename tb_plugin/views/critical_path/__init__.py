"""The ``critical_path`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText, missing_steps

VIEW = ViewEntry(
    __name__,
    "critical_path",
    "Critical path",
    order=70,
    model=TRACE,
    traits=Traits("operators", phase_note="The critical path belongs to steps, not to phases."),
    missing=missing_steps,
    http=ViewText(
        payloads=(
            "`summary` (Figures: the part of the step time that the path explains), `answer` (Notices), `steps` "
            "(Series: time by kind and step; absent with one step), `critical_by_kind` (Breakdown), `critical_events` "
            "(Table)."
        ),
        tables="`critical_events` (by event and kind), `critical_operators`, `critical_modules`.",
    ),
)
