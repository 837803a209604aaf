"""The view ``allocator_events``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry

VIEW = ViewEntry(
    __name__,
    "allocator_events",
    "Allocator events",
    order=360,
    model=SNAPSHOT,
    traits=Traits("Memory", "detail", whole="A snapshot has no phases."),
)
