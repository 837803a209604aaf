"""The ``counters`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "counters",
    "Counters",
    order=420,
    model=TRACE,
    traits=Traits("", "detail"),
    http=ViewText(
        parameters=(
            "`start_ns`, `end_ns` (default: everything; values outside the trace are null), `width` (number "
            "of bins, 50 to 4000, default 800, at most one per nanosecond)."
        ),
        payloads=(
            "Devices, queues, memory and recorded series over time, for the timeline. `counters` (Counters: "
            "mean, lowest and highest value of each counter in each bin)."
        ),
    ),
)
