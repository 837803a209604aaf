"""The view ``allocated_in``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "allocated_in",
    "Allocated in",
    order=370,
    model=TRACE,
    traits=Traits("Ask", "detail"),
    http=ViewText(
        parameters=(
            "`at_ns` (nanoseconds from the start of the trace, one microsecond long), `address` "
            "(`0x7f20`, or decimal), `bytes` (minimum size)."
        ),
        payloads=(
            "The operator that allocated a block of another recording of the same process, such as a "
            "snapshot. `matching` (Figures: how it was "
            "[matched](../concepts/memory.md#memory), null when the time is outside "
            "the trace)."
        ),
        tables="`allocating_operators` (one row; several when ambiguous, none when no operator was running).",
    ),
)
