"""The view ``ranks_memory``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry

VIEW = ViewEntry(
    __name__,
    "ranks_memory",
    "Ranks",
    order=280,
    model=SNAPSHOT,
    traits=Traits("Ranks", whole="A snapshot has no phases.", tables=("rank_memory",)),
    scope="workers",
)
