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
    traits=Traits("memory", "picture", phase_note="A snapshot has no phases."),
    missing=_missing,
    http=ViewText(
        parameters=(
            "`device`, `at` (number of an event, default the peak), `against` (number of a second event, "
            "before or after `at`), `of` (`held`, `made`, `left`), `by` (`line`, `function`, `file`). "
            "`of=held` selects the blocks that are allocated after event `at`. With `against`, the default "
            "is `made`: all allocations between the two events. `left` selects the allocations between the "
            "two events that are not released before the later event."
        ),
        payloads=(
            "For memory snapshots. `answer` (Notices: the line that allocated most, for `of=held`), `stacks` (Tree, one "
            "root), `summary` (Figures), `devices` (Figures, one per device)."
        ),
    ),
)
