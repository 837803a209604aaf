"""Entry of the view of the memory of all ranks."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "ranks_memory",
    "Ranks",
    order=235,
    model=SNAPSHOT,
    traits=Traits("memory", phase_note="A snapshot has no phases.", tables=("rank_memory",)),
    scope="workers",
    http=ViewText(
        payloads=(
            "The view covers the snapshots of all workers of a run and span, each for its busiest device. "
            "`answer` (Notices about `answer`), `headline` (Figures), `advice` (Notices), `rank_categories` (Series, "
            "stacked_bars: categories of each peak), `data_quality` (Notices; absent without notices), `rank_memory` "
            "(Table)."
        ),
        tables=("`rank_memory`."),
    ),
)
