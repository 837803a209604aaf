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
            "`event` (causes and effects of one event: its device work, its forward, backward and "
            "recorded links, and device work at their other ends; the first 100 of each), or `start_ns`, "
            "`end_ns` (all arrows with an end in the range, up to `most`, default 500, at most 5000; if "
            "there are more, none and their number as `hidden`), `kinds` (some of `launch`, "
            "`forward_backward`, `sync`, `operator`, `recorded`, separated by commas; default: all)."
        ),
        payloads="`flows` (Flows: arrows between events).",
    ),
)
