"""The ``allocation_stacks`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.snapshot.table import Snapshot


def _missing(snapshot: Snapshot) -> Missing | None:
    if len(snapshot.stacks):
        return None
    return Missing("The snapshot contains no stacks.", snapshot.recorder.todo("view.allocation_stacks"))


VIEW = ViewEntry(
    __name__,
    "allocation_stacks",
    "Stacks",
    order=230,
    model=SNAPSHOT,
    traits=Traits("Memory", "picture", phase_note="A snapshot has no phases."),
    missing=_missing,
    http=ViewText(
        parameters=(
            "`device`, `at` (the moment; default: the peak), `against` (a second moment, in any order), `of` "
            "(`held`: allocated at `at`; with `against` also `made`, the default then: all allocations in between; "
            "and `left`: those not released at the later moment), `by` (`line`, `function`, `file`)."
        ),
        payloads=(
            "For memory snapshots. `stacks` (Tree, one root), `summary` (Figures), `devices` (Figures, one per device)."
        ),
    ),
)
