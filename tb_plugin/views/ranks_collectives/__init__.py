"""The view ``ranks_collectives``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import FLIGHT, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "ranks_collectives",
    "Ranks",
    order=300,
    model=FLIGHT,
    traits=Traits("Ranks", whole="A flight recorder knows no phases.", tables=("matched_collectives", "rank_progress")),
    scope="workers",
    http=ViewText(
        payloads=(
            "Of the flight recorders of all workers of a run and span. `answer` (Notices about `answer`: who did "
            "not call a collective, who called another one, who waits), `headline` (Figures), `data_quality` "
            "(Notices: ranks without a dump; absent where there is nothing to say), `matched_collectives`, "
            "`rank_progress` (Tables)."
        ),
        tables=(
            "`matched_collectives` (what is not alike first; of the first 1,000 of these it is said on which "
            "ranks and in what), `rank_progress` (by rank and process group, those furthest behind first)."
        ),
    ),
)
