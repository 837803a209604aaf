"""The ``stack_profile`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import STACK_PROFILE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "stack_profile",
    "Stacks",
    order=46,
    model=STACK_PROFILE,
    traits=Traits("stacks", phase_note="A stack file has no phases."),
    http=ViewText(
        parameters=(
            "`thread` (repeatable), `function` (as for `stacks`). `thread` is the number of a profile in the file."
        ),
        payloads=(
            "For stack files. `answer` (Notices), `summary` (Figures: totals), `stacks` (Tree), `functions`, "
            "`stack_threads` (Tables). With `function` (a name in the table `functions`), the answer "
            "contains only `callers` and `callees` of that function (Trees)."
        ),
        tables="`functions`, `stack_threads`.",
    ),
)
