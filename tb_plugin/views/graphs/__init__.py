"""The ``graphs`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.graphs.replays import has_replays, replays_of

    if not has_replays(trace):
        return Missing("The trace contains no launches of captured graphs.", "")
    if len(replays_of(trace)):
        return None
    return Missing(
        "The trace contains graph launches, but no device work of the graphs.", trace.recorder.todo("view.launches")
    )


VIEW = ViewEntry(
    __name__,
    "graphs",
    "Graphs",
    order=312,
    model=TRACE,
    traits=Traits("compile", phase_note="", tables=("graphs",)),
    missing=_missing,
    http=ViewText(
        payloads=(
            "`summary` (Figures), `coverage` (Breakdown: replayed device time by kind of match), "
            "`graph_notes` (Notices: what the tables omit; absent without any), `graphs`, `graph_nodes`, "
            "`graph_replays` (Tables)."
        ),
        tables=(
            "`graphs` (per graph), `graph_nodes` (per graph and node, in order), `graph_replays` (per replay, by time)."
        ),
    ),
)
