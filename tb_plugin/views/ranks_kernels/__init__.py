"""The view ``ranks_kernels``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.model.trace.schema import EventKind

    if ((trace.kind == EventKind.KERNEL) & ~trace.is_collective).any():
        return None
    return Missing("The trace holds no kernels.", trace.recorder.todo("view.kernels"))


OF_RANK, ACROSS = "kernels_by_rank", "kernels_across_ranks"

VIEW = ViewEntry(
    __name__,
    "ranks_kernels",
    "Rank kernels",
    order=260,
    model=TRACE,
    traits=Traits("Ranks", "picture", hidden=True, whole="It compares steps of all workers.", tables=(ACROSS, OF_RANK)),
    scope="workers",
    missing=_missing,
)
