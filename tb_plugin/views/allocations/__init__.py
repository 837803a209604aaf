"""The view ``allocations``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry

VIEW = ViewEntry(
    __name__,
    "allocations",
    "Memory",
    order=200,
    model=SNAPSHOT,
    traits=Traits("Memory", kept=True, tables=("held_stacks", "oom_events"), whole="A snapshot has no phases."),
)
