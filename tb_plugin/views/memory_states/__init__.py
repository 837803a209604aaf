"""The ``memory_states`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "memory_states",
    "Memory states",
    order=380,
    model=TRACE,
    traits=Traits("Ask", "detail"),
    http=ViewText(
        payloads="The parameters, gradients and optimizer state of a trace, for `distributed`.",
        tables="`memory_states`.",
    ),
)
