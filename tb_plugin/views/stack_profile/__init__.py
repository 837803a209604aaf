"""The view ``stack_profile``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import STACK_PROFILE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "stack_profile",
    "Stacks",
    order=120,
    model=STACK_PROFILE,
    traits=Traits("Time", whole="A file of stacks has no phases."),
    http=ViewText(
        parameters="`thread` (repeatable: number of a profile of the file), `function` as for `stacks`.",
        payloads=(
            "Of files of stacks. `answer` (Notices), `summary` (Figures: what was counted in all), `stacks` "
            "(Tree), `functions`, `stack_threads` (Tables); with `function` (a name of the table): `callers` and "
            "`callees` (Trees) of it instead."
        ),
        tables="`functions`, `stack_threads`.",
    ),
)
