"""The view ``range``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "range",
    "Range",
    order=390,
    model=TRACE,
    traits=Traits("Ask", "detail"),
    http=ViewText(
        parameters="`start_ns`, `end_ns` (default: everything).",
        payloads=(
            "What ran in a range of time that was marked on the timeline, each event cut at its bounds: `summary` "
            "(Figures), `range_devices`, `range` (Tables)."
        ),
        tables="`range`, `range_devices`.",
    ),
)
