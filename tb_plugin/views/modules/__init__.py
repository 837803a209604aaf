"""The ``modules`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.compiled.regions import has_regions
    from tb_plugin.analysis.graphs.origins import origins_of
    from tb_plugin.model.trace.schema import EventKind

    modules = (trace.kind == EventKind.MODULE).any() or (origins_of(trace).scopes.kind == EventKind.MODULE).any()
    if modules or has_regions(trace):
        return None
    return Missing("The trace contains no calls of nn.Module.", trace.recorder.todo("view.modules"))


VIEW = ViewEntry(
    __name__,
    "modules",
    "Modules",
    order=70,
    model=TRACE,
    traits=Traits("model", phase_note="", tables=("modules", "compiled")),
    missing=_missing,
    http=ViewText(
        payloads=(
            "`answer` (Notices: one sentence; absent without times), `tree` (Tree; siblings of one class are below one "
            "node with `layers`), `data_quality` (Notices: the part of the backward pass without a module; absent "
            "without any), `replayed` (Breakdown: how modules of replayed graphs were matched; absent "
            "without any), `modules` (Table). Without module calls, the answer contains only `compiled` "
            "(Table)."
        ),
        tables=(
            "`modules` (per module, over all its calls), `compiled` (compiled code by region; absent without any)."
        ),
    ),
)
