"""The ``find`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "find",
    "Find",
    order=400,
    model=TRACE,
    traits=Traits("Ask", "detail", phase_note=""),
    http=ViewText(
        parameters=(
            "`in` (`names`; `args`: texts recorded with the event and its category, and numbers without a column "
            "of their own that read as exactly the text; `all`; `first`: `args` where no name has the text), "
            "`exact` (0/1: the whole text equals), `start_ns`, `end_ns` (events that touch this range), `bins` "
            "(slices of the whole trace, default 1200), `near_ns`."
        ),
        payloads=(
            "A search of the whole trace, or of S. `search` (text in any case, or `/regex/`), `where` as for "
            "`events` (its events are those of the row: also without S it counts what tables count). "
            "`summary` (Figures), `marks` (Series, histogram: hits that start in each slice), `names` (by "
            "name and kind), `hits` (all, in order of time); with `near_ns` also `near` (Figures, "
            "`hit_position`: the place in `hits` of the first one from there on; ask `table/find/hits` with "
            "`offset`)."
        ),
        tables="`hits`, `names`.",
    ),
)
