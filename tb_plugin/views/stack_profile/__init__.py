"""The ``stack_profile`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import STACK_PROFILE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "stack_profile",
    "Stacks",
    order=120,
    model=STACK_PROFILE,
    traits=Traits("Time", phase_note="A stack file has no phases."),
    http=ViewText(
        parameters=(
            "`thread` (repeatable), `function` (as for `stacks`). `thread` is the number of a profile in the file."
        ),
        payloads=(
            "For stack files. `answer` (Notices), `summary` (Figures: totals), `stacks` (Tree), `functions`, "
            "`stack_threads` (Tables). With `function` (a name of the table), the answer contains its "
            "`callers` and `callees` (Trees) instead."
        ),
        tables="`functions`, `stack_threads`.",
    ),
)
