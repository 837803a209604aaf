"""The ``stated`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    if trace.reported_tables or len(trace.blocks.start_ns) or len(trace.totals.time_ns):
        return None
    return Missing("The profile contains no vendor tables.", "")


VIEW = ViewEntry(
    __name__,
    "stated",
    "Vendor tables",
    order=306,
    model=TRACE,
    traits=Traits("ranks", hidden=True, phase_note="Vendor tables have no phases."),
    missing=_missing,
    http=ViewText(
        payloads=(
            "The view exists if the profile contains ready-made tables. Each table is unchanged, with "
            "the profile's column titles and units. `allocator_blocks` and `allocator_totals` exist if "
            "the profile contains blocks with both times, or totals of several allocators."
        ),
        tables="as named by the profile, `allocator_blocks`, `allocator_totals`.",
    ),
)
