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
        parameters=(
            "`start_ns`, `end_ns` (default: everything), `track` (a track id of `view/timeline`; default: all), `search` "
            "(a query as in `find`: selects events)."
        ),
        payloads=(
            "Events in a time range marked on the timeline, clipped to the range. `summary`, `groups` (Figures: number "
            "of events in each group), `range_devices`, `range_streams`, `range` (Tables). The column `range_group` "
            "of `range` is `kernel`, `operator`, `python`, `annotation` or `other`. Python calls of threads that only "
            "wait are not listed; `waiting_threads` in `summary` counts these threads."
        ),
        tables="`range`, `range_devices`, `range_streams`.",
    ),
)
