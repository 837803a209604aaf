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
            "`at_ns` (when, from the start of the trace; the microsecond that begins there), `address` (`0x7f20`, "
            "or decimal), `bytes` (at least so many)."
        ),
        payloads=(
            "In which operator of a trace a block was allocated that another recording of the process tells of, "
            "such as a snapshot. `matching` (Figures: by what it was "
            "[matched](../concepts/memory.md#memory), null where the time lies outside of the "
            "trace)."
        ),
        tables="`allocating_operators` (one row; several where it is ambiguous, none where no operator was open).",
    ),
)
