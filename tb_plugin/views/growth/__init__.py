"""The view ``growth``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry, ViewText

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
    http=ViewText(
        parameters=(
            "`device`, `stack` (a `stack_number`, whose curve is drawn; default: the one that grows most, else "
            "all), `at`, `against` (events after which the two moments are that are compared, in any order; by "
            "default the ends of the first and the last step, without steps the whole history)."
        ),
        payloads=(
            "Of memory snapshots. `answer` (Notices about `answer`), `summary` (Figures), `live` (Series, lines; "
            "absent without steps), `compared` (Figures: both moments), `devices` (Figures, one a device)."
        ),
        tables="`growth_stacks`, `changed_stacks`, `changed_blocks` (the largest 100,000), `growth_steps`.",
    ),
)
