"""The ``allocator_events`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "allocator_events",
    "Allocator events",
    order=360,
    model=SNAPSHOT,
    traits=Traits("", "detail", phase_note="A snapshot has no phases."),
    http=ViewText(
        parameters=(
            "`device`, `near` (the event in the middle of the answer) or `first` (number of matching events "
            "to skip), `search` (text in action or stack, or an address such as `0x7f20`)."
        ),
        payloads=(
            "For memory snapshots. The view lists the history of a device, 300 events per answer. This view "
            "has no page. `found` (Figures)."
        ),
        tables="`events`.",
    ),
)
