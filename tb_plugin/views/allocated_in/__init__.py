"""The ``allocated_in`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "allocated_in",
    "Allocated in",
    order=370,
    model=TRACE,
    traits=Traits("", "detail"),
    http=ViewText(
        parameters=(
            "`at_ns` (start of the allocation's microsecond, measured from trace start), `address` "
            "(`0x7f20`, or decimal), `bytes` (minimum size)."
        ),
        payloads=(
            "The view finds the operator in a trace that allocated a block of a memory snapshot. Trace and "
            "snapshot come from the same process. `matching` (Figures: how the block was "
            "[matched](../concepts/memory.md#memory); null if the time is outside the trace)."
        ),
        tables=(
            "`allocating_operators` (one row; several rows if the match is ambiguous; no row if no operator "
            "was running)."
        ),
    ),
)
