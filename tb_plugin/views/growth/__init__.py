"""The ``growth`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.snapshot.table import Snapshot


def _missing(snapshot: Snapshot) -> Missing | None:
    from tb_plugin.analysis.snapshot.device_levels import devices_of

    if any(device.count for device in devices_of(snapshot)):
        return None
    return Missing("The snapshot contains no event history.", snapshot.recorder.todo("view.growth"))


VIEW = ViewEntry(
    __name__,
    "growth",
    "Growth",
    order=220,
    model=SNAPSHOT,
    traits=Traits("memory", tables=("growth_stacks",), phase_note="A snapshot has no phases."),
    missing=_missing,
    http=ViewText(
        parameters=(
            "`device`, `stack` (a `stack_number` for the curve; default: the stack that grows most, else "
            "all), `at`, `against` (numbers of two events, in any order). The view compares memory after one "
            "event with memory after the other event. The default events are the end of the first step and "
            "the end of the last step. Without steps, the default events are the start and the end of the "
            "history."
        ),
        payloads=(
            "For memory snapshots. `answer` (Notices about `answer`), `summary` (Figures), `live` (Series, "
            "lines; absent without steps), `compared` (Figures: memory after both events), `devices` "
            "(Figures, one per device)."
        ),
        tables="`growth_stacks`, `changed_stacks`, `changed_blocks` (the largest 100,000), `growth_steps`.",
    ),
)
