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
    "Diff",
    order=320,
    model=TRACE,
    traits=Traits("Compare", phase_note="Diff compares whole steps, not phases."),
    scope="pair",
    borrows=BORROWED,
    http=ViewText(
        parameters=(
            "`base_run`, `base_worker`, `base_span` (the baseline; default: the values of the "
            "experiment), `base_window`, `base_steps`, `measure` (`device_self_ns`, `device_total_ns`, "
            "`host_self_ns`, `host_total_ns`), `per` (`step`, `total`). For different vendors, the "
            "default measure is device total. Otherwise the default is device self if a device part of "
            "the step changed most, else host self.  Tables also accept `measure=all`: one column per "
            "measure."
        ),
        payloads=(
            "P and S select the experiment. Without `steps`, all recorded steps of a side are included. "
            "Profiles are loaded on demand (`202`). `headline` (Figures), `waterfall` (Breakdown; absent if "
            "both sides contain only ranges), `compared` (Figures: the applied measure and scaling), "
            "`findings` (Notices), `call_tree` (Tree, both sides aligned), and the first page of each table."
        ),
        tables=(
            "`operators`, `operators_by_shape`, `kernels`, `modules`, `runtime_calls`, `settings`. If a side "
            "contains only ranges, also `ranges`. (If a side has step modes, also `serving_modes`. If a side "
            "reports kernel types, also `kernels_by_type` and `kernels_by_type_shape`. For devices of "
            "different vendors, or other than GPUs, also `overall`, `computing`, `communication`, `memory` "
            "and `kernels_by_operator`, if they have rows. In this case `operators` and `operators_by_shape` "
            "have `base_kernels`, `exp_kernels`, `delta_kernels`, and `compared_ratio` instead of "
            "`time_ratio`.)"
        ),
    ),
)
