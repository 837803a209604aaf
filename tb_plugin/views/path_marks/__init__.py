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
            "`start_ns`, `end_ns` (default: everything), `min_ns` (joins marks over shorter gaps). Instead of marks: "
            "`event` (its slack), or `by` (1 or -1: the next or previous event on the path, from `event` or `from_ns`)."
        ),
        payloads=(
            "`path_marks` (Table: at most 1,000 marks by time; `row` is null if many short pieces alternate). With `event`, "
            "`slack` (Figures: how much later it could start, and its time on the path; empty outside of steps). With "
            "`by`, `next` (Table: at most one event)."
        ),
        tables="`path_marks`, `next`.",
    ),
)
