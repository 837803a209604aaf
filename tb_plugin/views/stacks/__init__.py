"""The ``stacks`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.graphs.origins import origins_of
    from tb_plugin.analysis.stack_frames import FRAMES
    from tb_plugin.model.trace.schema import of_kind

    if of_kind(trace.kind, *FRAMES["both"]).any() or len(origins_of(trace).scopes):
        return None
    return Missing("The trace contains no CPU calls.", trace.recorder.todo("view.stacks"))


VIEW = ViewEntry(
    __name__,
    "stacks",
    "Stacks",
    order=45,
    model=TRACE,
    traits=Traits("stacks", "picture", phase_note=""),
    missing=_missing,
    http=ViewText(
        parameters=(
            "`of` (`both`, `python`, `operators`), `weight` (`host`, `device`), `thread` (repeatable), "
            "`fold` (`none`, `framework`), `order` (`heavy`, `time`). `thread` is a key, an id, a name or "
            "`all`; by default, idle threads are excluded. `order=heavy` merges all equal calls and sorts "
            "them by time. `order=time` merges only consecutive calls and separates threads."
        ),
        payloads=(
            "`answer` (Notices: one sentence; absent without times), `stacks` (Tree), "
            "`data_quality` (Notices: frames of recorded call stacks; absent "
            "without any), `functions`, `threads` (Tables). `download/stacks` has all stacks. "
            "With `function` (a name in the table `functions`), the answer contains only `callers` and "
            "`callees` of that function (Trees)."
        ),
        tables="`functions`, `threads`.",
    ),
)
