"""The view ``collectives``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import FLIGHT, ViewEntry

VIEW = ViewEntry(
    __name__,
    "collectives",
    "Collectives",
    order=290,
    model=FLIGHT,
    traits=Traits("Work", whole="A flight recorder knows no phases.", tables=("recorded_calls", "group_progress")),
)
