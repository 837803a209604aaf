"""The ``memory`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    if len(trace.memory.time_ns) or len(trace.totals.time_ns) or len(trace.components.time_ns):
        return None
    if trace.metadata.get("profile_memory"):
        return Missing("profile_memory was on, but the recording contains no memory events.", "")
    return Missing("The trace contains no memory events.", trace.recorder.todo("view.memory"))


VIEW = ViewEntry(
    __name__,
    "memory",
    "Memory",
    order=170,
    model=TRACE,
    traits=Traits("memory", tab="Curve", phase_note="Memory outlives the phase that allocates it."),
    missing=_missing,
    http=ViewText(
        parameters=(
            "`device` (such as `cuda:0`; default: the first accelerator, for tables all devices), "
            "`start_ns`, `end_ns` (within the selected steps), `at_ns` (time of `memory_peak` and the bars, "
            "default the peak), `width` (columns of the curves, default 800), `allocator` (for "
            "`allocator_curve`; default: reserved memory of each allocator), `zeros` (`1` includes "
            "components that never had memory)."
        ),
        payloads=(
            "`answer` (Notices: failed requests, and what the peak consists of), `summary` (Figures), "
            "`curve` (Series, lines; null between selected steps that are not adjacent), "
            "`out_of_memory` (Series: times and bytes of failed requests; absent without any), `live_operators` and "
            "`live_outermost` (Breakdown: by innermost and by top-level operator), `live_categories` (absent without "
            "totals, addresses or a forward pass), `live_modules`, `live_frames` (by Python line) and `live_phases` "
            "(Breakdown; absent if not recorded), `block_states` (Breakdown: blocks by state), `driver_calls` "
            "(Figures), `advice` and `data_quality` (Notices), `devices` (Figures, one per device), `allocators`, "
            "`allocator_devices`, `allocator_peaks` and `component_counts` (Figures), `allocator_curve` (Series), "
            "`memory_allocators` and `memory_components` (Tables; if the profiler [reports "
            "totals](../concepts/memory.md#memory)), `memory_operators` (Table), `memory_shapes` (Table; if input "
            "shapes change from step to step). Without memory events there are only tables."
        ),
        tables=(
            "`memory_operators`, `memory_operators_outermost`, `memory_events` (blocks; filtered by "
            "`min_block_bytes`, `max_block_bytes`, `min_lifetime_ns`, `max_lifetime_ns`), `memory_peak` (live "
            "memory), `memory_steps` (blocks that outlive the step that allocated them), `memory_shapes`, "
            "`memory_allocators`, `memory_components`."
        ),
    ),
)
