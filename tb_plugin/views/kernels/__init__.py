"""The view ``kernels``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.model.trace.schema import DEVICE_WORK, of_kind

    if of_kind(trace.kind, *DEVICE_WORK).any():
        return None
    return Missing("The trace holds no device events.", trace.recorder.todo("view.kernels"))


VIEW = ViewEntry(
    __name__,
    "kernels",
    "Kernels",
    order=60,
    model=TRACE,
    traits=Traits("Work", whole="", tables=("kernels", "kernels_by_launch")),
    missing=_missing,
)
