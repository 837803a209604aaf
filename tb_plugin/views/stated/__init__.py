"""The view ``stated``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    if trace.stated or len(trace.blocks.start_ns) or len(trace.totals.time_ns):
        return None
    return Missing("The profile states no tables.", "")


VIEW = ViewEntry(
    __name__,
    "stated",
    "Stated",
    order=240,
    model=TRACE,
    traits=Traits("Work", hidden=True, whole="The profile states its tables as a whole."),
    missing=_missing,
    http=ViewText(
        payloads=(
            "There when the profile states tables of its own: each of them as it is (the columns with the "
            "profile's titles and units), `allocator_blocks` and `allocator_totals` where it states blocks with "
            "both times, or totals of several allocators."
        ),
        tables="as the profile names them, `allocator_blocks`, `allocator_totals`.",
    ),
)
