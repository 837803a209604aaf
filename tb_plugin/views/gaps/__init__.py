"""The view ``gaps``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry

VIEW = ViewEntry(
    __name__,
    "gaps",
    "Gaps",
    order=430,
    model=TRACE,
    traits=Traits("Ask", "detail"),
)
