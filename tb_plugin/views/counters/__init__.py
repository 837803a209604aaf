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
    traits=Traits("Ask", "detail"),
    http=ViewText(
        parameters=(
            "`start_ns`, `end_ns` (default: everything; also beyond the trace, where everything is null), `width` "
            "(number of bins, 50..4000, default 800; never more than nanoseconds)."
        ),
        payloads=(
            "Devices, queues, memory and recorded series over time, for the timeline: `counters` (Counters: "
            "of each the mean, the lowest and the highest value in each bin)."
        ),
    ),
)
