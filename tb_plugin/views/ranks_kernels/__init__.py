"""Entry of the Rank kernels view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.model.trace.schema import EventKind

    if ((trace.kind == EventKind.KERNEL) & ~trace.is_collective).any():
        return None
    return Missing("The trace contains no kernels.", trace.recorder.todo("view.kernels"))


OF_RANK, ACROSS = "kernels_by_rank", "kernels_across_ranks"

VIEW = ViewEntry(
    __name__,
    "ranks_kernels",
    "Rank kernels",
    order=260,
    model=TRACE,
    traits=Traits(
        "ranks",
        place="picture",
        tab="Kernels by rank",
        hidden=True,
        phase_note="The view compares steps of all workers.",
        tables=(ACROSS, OF_RANK),
    ),
    scope="workers",
    missing=_missing,
    http=ViewText(
        payloads=(
            "The view covers the traces of all workers of a run and span. `answer` (Notices about `answer`: "
            "the kernel whose total time per step differs most, the kernel whose mean duration differs most, "
            "and the worker that is most often the slowest; empty for one worker), `slower_map` (Series, a "
            "line for each of the 12 kernels that differ most, x = workers: relative excess over the fastest "
            "worker; absent for one worker), `data_quality` (Notices; absent without notices) and the tables."
        ),
        tables=(
            "`kernels_across_ranks` (by name, input shapes and types; the largest difference of totals per step "
            "first), `kernels_by_rank` (the same per worker)."
        ),
    ),
)
