"""The view ``growth``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry

if TYPE_CHECKING:
    from tb_plugin.model.snapshot.table import Snapshot


def _missing(snapshot: Snapshot) -> Missing | None:
    from tb_plugin.analysis.snapshot.device_levels import devices_of

    if any(held.count for held in devices_of(snapshot)):
        return None
    return Missing("The snapshot holds no history of events.", snapshot.recorder.todo("view.growth"))


VIEW = ViewEntry(
    __name__,
    "growth",
    "Growth",
    order=220,
    model=SNAPSHOT,
    traits=Traits("Memory", tables=("growth_stacks",), whole="A snapshot has no phases."),
    missing=_missing,
)
