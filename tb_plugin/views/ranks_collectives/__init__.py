"""The view ``ranks_collectives``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import FLIGHT, ViewEntry

VIEW = ViewEntry(
    __name__,
    "ranks_collectives",
    "Ranks",
    order=300,
    model=FLIGHT,
    traits=Traits("Ranks", whole="A flight recorder knows no phases.", tables=("matched_collectives", "rank_progress")),
    scope="workers",
)
