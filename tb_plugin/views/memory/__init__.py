"""The view ``memory``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    if len(trace.memory.time_ns) or len(trace.totals.time_ns) or len(trace.components.time_ns):
        return None
    return Missing("The trace holds no memory events.", trace.recorder.todo("view.memory"))


VIEW = ViewEntry(
    __name__,
    "memory",
    "Memory",
    order=170,
    model=TRACE,
    traits=Traits("Memory", whole="Memory is held beyond the phase that asks for it."),
    missing=_missing,
    http=ViewText(
        parameters=(
            "`device` (such as `cuda:0`; the page's default: the first accelerator, the tables': all), "
            "`start_ns`, `end_ns` (within the chosen steps), `at_ns` (the moment of `memory_peak` and the bars; "
            "default: the peak), `width` (columns of the curves, default 800), `allocator` (whose totals "
            "`allocator_curve` shows; default: what each reserved), `zeros` (1: also components that held "
            "nothing)."
        ),
        payloads=(
            "`summary` (Figures), `curve` (Series, lines; null between chosen steps that lie apart), "
            "`out_of_memory` (Series: times and bytes of failed requests; absent without any), `live_operators` "
            "and `live_outermost` (Breakdown: by the innermost operator, and by the outermost), `live_categories` "
            "(absent without totals, addresses or a forward pass), `live_modules`, `live_frames` (by line of "
            "Python) and `live_phases` (Breakdown; absent where the trace does not tell), `block_states` "
            "(Breakdown: blocks by state), `driver_calls` (Figures), `advice` and `data_quality` (Notices), "
            "`devices` (Figures, one a device), `allocators`, `allocator_devices`, `allocator_peaks` and "
            "`component_counts` (Figures), `allocator_curve` (Series), `memory_allocators` and "
            "`memory_components` (Tables; these where the profile [states "
            "totals](../concepts/memory.md#memory)), `memory_operators` (Table), `memory_shapes` "
            "(Table; where input shapes change from step to step); only tables without memory events."
        ),
        tables=(
            "`memory_operators`, `memory_operators_outermost`, `memory_events` (blocks; the page filters them "
            "with `min_block_bytes`, `max_block_bytes`, `min_lifetime_ns`, `max_lifetime_ns`), `memory_peak` "
            "(what was live), `memory_steps` (what outlives the step that allocated it), `memory_shapes`, "
            "`memory_allocators`, `memory_components`."
        ),
    ),
)
