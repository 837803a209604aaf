"""The ``flows`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "flows",
    "Flows",
    order=410,
    model=TRACE,
    traits=Traits("Ask", "detail"),
    http=ViewText(
        parameters=(
            "`event`, or `start_ns`, `end_ns`; `most` (default 500, at most 5000), `kinds` "
            "(comma-separated: `launch`, `forward_backward`, `sync`, `operator`, `recorded`; default: "
            "all). `event` selects causes and effects of one event: its device work, its forward, "
            "backward and recorded links, and device work at their other ends. Each of these has at most "
            "100 arrows. A time range selects all arrows that start or end in it. If there are more than "
            "`most`, the answer contains no arrows, only their number as `hidden`."
        ),
        payloads="`flows` (Flows: arrows between events).",
    ),
)
