"""Entry of the view of all flight recorders."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import FLIGHT, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "ranks_collectives",
    "Ranks",
    order=300,
    model=FLIGHT,
    traits=Traits(
        "ranks",
        tab="All ranks",
        phase_note="A flight recorder has no phases.",
        tables=("matched_collectives", "rank_progress"),
    ),
    scope="workers",
    http=ViewText(
        payloads=(
            "The view covers the flight recorders of all workers of a run and span. `answer` (Notices about "
            "`answer`: ranks that did not call a collective, ranks that called another collective, and "
            "waiting ranks), `headline` (Figures), `data_quality` (Notices: ranks without a dump; absent "
            "without notices), `matched_collectives`, `rank_progress` (Tables)."
        ),
        tables=(
            "`matched_collectives` (collectives that differ between ranks come first; the table shows "
            "differences and ranks only for the first 1,000 of these), `rank_progress` (by rank and process "
            "group, furthest behind first)."
        ),
    ),
)
