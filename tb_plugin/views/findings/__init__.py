"""The view ``findings``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.range_traces import is_range_trace

    if is_range_trace(trace):
        return Missing("No checks ran: this is not a PyTorch trace.", "")
    return None


VIEW = ViewEntry(
    __name__,
    "findings",
    "Findings",
    order=20,
    model=TRACE,
    traits=Traits(
        "Summary",
        kept=True,
        whole="Findings cover whole steps, not phases.",
        tables=("savings",),
    ),
    missing=_missing,
    http=ViewText(
        parameters=(
            "`without` (ids of rules with commas between, [left out](../findings.md#leave-a-finding-out) of all "
            "numbers; unknown ones are none)."
        ),
        payloads=(
            "Of traces. `summary` (Figures: step time, number of findings), `together` (Figures: what all save, "
            "how many rules looked of how many, what was not recorded that rules look at, and how busy the "
            "devices are), `findings` (Notices, what saves most first; each with `title`, `why`, `confidence`, "
            "`saving`, the first `events` and how many it is `shown_by`), `dismissed`, `ignored` (Notices about "
            "`answer`: what applies and is left out by `without`, by the file `torch_trace_ignore` of the log "
            "directory; absent without any), `data_quality` (Notices; absent unless that file names what is no "
            "rule)."
        ),
        tables=(
            "`savings` (a row for each finding), `finding_events` (the events that show each, by `rule`), "
            "`fusible_kernels` (of `unfused_kernels`: runs with the same kernels in the same order; absent "
            "without that finding)."
        ),
    ),
)
