"""The ``flows`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "flows",
    "Flows",
    order=410,
    model=TRACE,
    traits=Traits("", "detail"),
    http=ViewText(
        parameters=(
            "`event`, or `start_ns`, `end_ns`; `most` (default 500, at most 5000), `kinds` (comma-separated: "
            "`launch`, `forward_backward`, `sync`, `operator`, `recorded`; default: all). `event` selects "
            "the arrows between one event and its causes and effects: its device work, its forward and "
            "backward operators, other linked events, and the device work of these operators and events. The "
            "answer contains at most 100 arrows of each of these kinds. A time range selects all arrows that "
            "start or end in the range. If there are more than `most` arrows, the answer contains only the "
            "number of arrows as `hidden`."
        ),
        payloads="`flows` (Flows: arrows between events).",
    ),
)
