"""The ``range`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "range",
    "Range",
    order=390,
    model=TRACE,
    traits=Traits("", "detail"),
    http=ViewText(
        parameters="`start_ns`, `end_ns` (default: everything).",
        payloads=(
            "Events in a time range marked on the timeline, clipped to the range. `summary` (Figures), "
            "`range_devices`, `range` (Tables)."
        ),
        tables="`range`, `range_devices`.",
    ),
)
