"""The ``gaps`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "gaps",
    "Gaps",
    order=430,
    model=TRACE,
    traits=Traits("", "detail"),
    http=ViewText(
        parameters="`start_ns`, `end_ns` (default: everything), `min_ns` (shortest gap, default 10000).",
        payloads=(
            "Idle time of devices and their streams, with causes. `gaps` (Table: at most 2,000 gaps, device gaps "
            "first, longest first)."
        ),
        tables="`gaps`.",
    ),
)
