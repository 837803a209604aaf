"""The view ``gaps``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "gaps",
    "Gaps",
    order=430,
    model=TRACE,
    traits=Traits("Ask", "detail"),
    http=ViewText(
        parameters="`start_ns`, `end_ns` (default: the whole trace), `min_ns` (shortest gap, default 10000).",
        payloads=(
            "Idle periods of devices and streams with their causes: `summary` (Figures), `gaps` (Table, "
            "devices first, longest first, at most 2,000)."
        ),
        tables="`gaps`.",
    ),
)
