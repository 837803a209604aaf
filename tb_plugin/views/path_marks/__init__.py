"""The ``path_marks`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "path_marks",
    "Critical path in the timeline",
    order=435,
    model=TRACE,
    traits=Traits("", "detail"),
    http=ViewText(
        parameters=(
            "`start_ns`, `end_ns` (default: everything), `min_ns` (joins marks of a lane over shorter gaps), `event` "
            "(for its slack), `from_ns` with `by` (1 or -1: the next or previous event on the path)."
        ),
        payloads=(
            "`path_marks` (Table: at most 5,000 marks by time). With `event`, `slack` (Figures: how much later it could "
            "start, and its time on the path). `next` (Table: at most one event; empty without `from_ns`)."
        ),
        tables="`path_marks`, `next`.",
    ),
)
