"""The view ``find``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "find",
    "Find",
    order=400,
    model=TRACE,
    traits=Traits("Ask", "detail", whole=""),
    http=ViewText(
        parameters=(
            "`in` (`names`; `args`: recorded texts of the event, its category, and numbers without a "
            "column that equal the text; `all`; `first`: `args` if no name matches), `exact` (0/1: match "
            "the whole text), `start_ns`, `end_ns` (events that overlap this range), `bins` (slices of "
            "the whole trace, default 1200), `near_ns`."
        ),
        payloads=(
            "A search of the whole trace, or of S. `search` (case-insensitive text, or `/regex/`), "
            "`where` as for `events` (the events of a table row; without S it counts the same events as "
            "tables). `summary` (Figures), `marks` (Series, histogram: hits that start in each slice), "
            "`names` (by name and kind), `hits` (all, by time); with `near_ns` also `near` (Figures, "
            "`hit_position`: position in `hits` of the first hit from there on; use it as `offset` of "
            "`table/find/hits`)."
        ),
        tables="`hits`, `names`.",
    ),
)
