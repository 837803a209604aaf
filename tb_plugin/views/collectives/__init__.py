"""The ``collectives`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import FLIGHT, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "collectives",
    "Collectives",
    order=290,
    model=FLIGHT,
    traits=Traits("ranks", phase_note="A flight recorder has no phases.", tables=("recorded_calls", "group_progress")),
    http=ViewText(
        payloads="The view covers the dump of one flight recorder. `answer` (Notices about `answer`: the incomplete call), "
        "`summary` (Figures), `group_progress`, `recorded_calls` (Tables).",
        tables="`recorded_calls` (the last call first, with its stack), `group_progress` (progress of the rank in each "
        "process group).",
    ),
)
