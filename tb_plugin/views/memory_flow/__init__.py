"""The ``memory_flow`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import MEMORY_FLOW, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "memory_flow",
    "Memory flow",
    order=190,
    model=MEMORY_FLOW,
    traits=Traits("Memory", phase_note="A memory flow has no phases.", tables=("tensors_at", "flow_producers")),
    http=ViewText(
        parameters=(
            "`start_ns`, `end_ns` (range of time), `low`, `high` (range on the address axis of `flow`), "
            "`at_ns` (moment of figures and tables, default the peak), `width` (columns of the curve, "
            "default 800)."
        ),
        payloads=(
            "For `memory_flow.svg`. `answer` (Notices), `summary` (Figures), `curve` (Series, lines), `flow` "
            "(MemoryFlowMap: up to 10,000 tensors of the part, and the positions of all others), `moment` (Figures), "
            "`data_quality` (Notices), `tensors_at`, `flow_producers`, `tensors` (Tables)."
        ),
        tables="`tensors_at` (live at the moment), `flow_producers`, `tensors` (all).",
    ),
)
