"""The view ``collectives``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import FLIGHT, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "collectives",
    "Collectives",
    order=290,
    model=FLIGHT,
    traits=Traits("Work", whole="A flight recorder dump has no phases.", tables=("recorded_calls", "group_progress")),
    http=ViewText(
        payloads=(
            "For flight recorder dumps: the last calls of one rank. `answer` (Notices about `answer`: "
            "the call in which it hangs), `summary` (Figures), `group_progress`, `recorded_calls` "
            "(Tables)."
        ),
        tables=(
            "`recorded_calls` (latest first, with stacks), `group_progress` (progress of the rank in "
            "each process group)."
        ),
    ),
)
