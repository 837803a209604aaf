"""The view ``allocation_stacks``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry

if TYPE_CHECKING:
    from tb_plugin.model.snapshot.table import Snapshot


def _missing(snapshot: Snapshot) -> Missing | None:
    if len(snapshot.stacks):
        return None
    return Missing("The snapshot holds no stacks.", snapshot.recorder.todo("view.allocation_stacks"))


VIEW = ViewEntry(
    __name__,
    "allocation_stacks",
    "Stacks",
    order=230,
    model=SNAPSHOT,
    traits=Traits("Memory", "picture", whole="A snapshot has no phases."),
    missing=_missing,
)
