"""Entry of the Diff view."""

from __future__ import annotations

from types import MappingProxyType

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

BORROWED = MappingProxyType(
    {
        "overview": ("steps", "configuration"),
        "operators": ("operators", "operators_by_shape"),
        "kernels": ("kernels", "kernels_by_type", "kernels_by_type_shape"),
        "modules": ("modules",),
        "launches": ("runtime_calls",),
        "serving": ("serving_modes",),
    }
)

VIEW = ViewEntry(
    __name__,
    "diff",
    "Compare",
    order=320,
    model=TRACE,
    traits=Traits("compare", phase_note="Compare covers whole steps, not phases."),
    scope="pair",
    borrows=BORROWED,
    http=ViewText(
        parameters=(
            "`base_run`, `base_worker`, `base_span` (the baseline; default: the values of the experiment), "
            "`base_window`, `base_steps`, `measure` (`device_self_ns`, `device_total_ns`, `host_self_ns`, "
            "`host_total_ns`), `per` (`step`, `total`). If the two profiles come from devices of different "
            "vendors, the default measure is `device_total_ns`. Otherwise the default is `device_self_ns` if "
            "a device part of the step changed most, else `host_self_ns`. Tables also accept `measure=all`, "
            "which returns one column per measure."
        ),
        payloads=(
            "P and S select the experiment. Without `steps`, all recorded steps of a profile are included. "
            "Profiles are loaded on demand (`202`). `headline` (Figures), `waterfall` (Breakdown; absent if "
            "both profiles contain only ranges), `step_times` (Scatter), `noise` (Figures: changes within noise by "
            "table), `compared` (Figures: the applied measure and scaling), "
            "`findings` (Notices), `call_tree` (Tree of both profiles), and the first page of each table."
        ),
        tables=(
            "`operators`, `operators_by_shape`, `kernels`, `modules`, `runtime_calls`, `settings`. If a "
            "profile contains only ranges, also `ranges`. (If a profile has step modes, also "
            "`serving_modes`. If noise is known, rows have `interval_low_ns`, `interval_high_ns` and `noise`. If a "
            "profile reports kernel types, also `kernels_by_type` and "
            "`kernels_by_type_shape`. For devices of different vendors, also `kernels_by_class`.)"
        ),
    ),
)
