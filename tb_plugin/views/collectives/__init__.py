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
    traits=Traits("Work", whole="A flight recorder knows no phases.", tables=("recorded_calls", "group_progress")),
    http=ViewText(
        payloads=(
            "Of dumps of flight recorders: what one rank called last. `answer` (Notices about `answer`: what it "
            "hangs in), `summary` (Figures), `group_progress`, `recorded_calls` (Tables)."
        ),
        tables=(
            "`recorded_calls` (the last one first, with its stack), `group_progress` (how far the rank came in "
            "each process group)."
        ),
    ),
)
