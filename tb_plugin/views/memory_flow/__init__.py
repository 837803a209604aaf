"""The view ``memory_flow``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import MEMORY_FLOW, ViewEntry

VIEW = ViewEntry(
    __name__,
    "memory_flow",
    "Memory flow",
    order=190,
    model=MEMORY_FLOW,
    traits=Traits("Memory", whole="A memory flow has no phases.", tables=("tensors_at", "flow_producers")),
)
