"""The view ``flows``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "flows",
    "Flows",
    order=410,
    model=TRACE,
    traits=Traits("Ask", "detail"),
    http=ViewText(
        parameters=(
            "`event` (all that one event led to and came from: what ran on devices for it, its links (between "
            "forward and backward, and recorded ones), what ran on devices at their other ends; the first 100 of "
            "each), else `start_ns`, `end_ns` (all arrows with an end in the range, when there are no more than "
            "`most`, default 500, at most 5000; else none and their number as `hidden`), `kinds` (some of "
            "`launch`, `forward_backward`, `sync`, `operator`, `recorded`, separated by commas; default: all)."
        ),
        payloads="`flows` (Flows: arrows between events).",
    ),
)
