"""The ``findings`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.range_traces import is_range_trace

    if is_range_trace(trace):
        return Missing("No checks ran: the trace contains only ranges.", "")
    return None


VIEW = ViewEntry(
    __name__,
    "findings",
    "Findings",
    order=20,
    model=TRACE,
    traits=Traits("overview", cached=True, phase_note="Findings cover whole steps, not phases.", tables=("savings",)),
    missing=_missing,
    http=ViewText(
        parameters=(
            "`without` (rule ids separated by commas, [excluded](../findings.md#leave-a-finding-out) from "
            "all numbers; unknown ids are ignored), `fixed` (rule ids separated by commas: the response contains only "
            "`after_fixes`)."
        ),
        payloads=(
            "For traces. `summary` (Figures: step time, number of findings), `together` (Figures: total "
            "saving, number of rules that ran, missing data, device utilization), `findings` (Notices, "
            "largest expected saving first; each with `title`, `why`, `confidence`, `saving`, the first `events`, and "
            "the number of all events as `event_count`), `dismissed`, `ignored` (Notices about `answer`: "
            "findings excluded by `without`, or by the file `torch_trace_ignore` of the log directory; "
            "absent without any), `data_quality` (Notices; absent unless that file contains unknown rules). With `fixed`: "
            "`after_fixes` (Notices with one notice: `saving` is the saving of these fixes together, from one simulation "
            "with all their changes; the text names the limit that remains and the findings without an estimate)."
        ),
        tables=(
            "`savings` (one row per finding), `finding_events` (the events of each finding, by `rule`), "
            "`fusible_kernels` (for `unfused_kernels`: sequences of the same kernels in the same order; "
            "absent without that finding)."
        ),
    ),
)
