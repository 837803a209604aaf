"""The view ``active_memory``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry

VIEW = ViewEntry(
    __name__,
    "active_memory",
    "Active memory",
    order=350,
    model=SNAPSHOT,
    traits=Traits("Memory", "detail", whole="A snapshot has no phases."),
)
