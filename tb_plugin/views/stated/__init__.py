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
    return Missing("The profile has no vendor tables.", "")


VIEW = ViewEntry(
    __name__,
    "stated",
    "Stated",
    order=240,
    model=TRACE,
    traits=Traits("Work", hidden=True, whole="Vendor tables cover the whole profile."),
    missing=_missing,
    http=ViewText(
        payloads=(
            "If the profile has vendor tables: each of them unchanged (columns with the vendor's titles "
            "and units), `allocator_blocks` and `allocator_totals` if it reports blocks with both times, "
            "or totals of several allocators."
        ),
        tables="as named by the vendor, `allocator_blocks`, `allocator_totals`.",
    ),
)
