"""The view ``segments``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry

VIEW = ViewEntry(
    __name__,
    "segments",
    "Segments",
    order=210,
    model=SNAPSHOT,
    traits=Traits("Memory", tables=("pools_at", "oom_moments"), whole="A snapshot has no phases."),
)
