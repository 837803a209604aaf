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
    traits=Traits("Ask", "detail"),
    http=ViewText(
        parameters=(
            "`at_ns` (start of the allocation's microsecond, measured from trace start), `address` "
            "(`0x7f20`, or decimal), `bytes` (minimum size)."
        ),
        payloads=(
            "The view finds the operator that allocated a block. The block is from a memory snapshot of "
            "the same process. `matching` (Figures: how the block was "
            "[matched](../concepts/memory.md#memory), null for times outside the trace)."
        ),
        tables=(
            "`allocating_operators` (one row, several if the match is ambiguous, none if no operator was running)."
        ),
    ),
)
