"""The view ``diff``."""

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
    traits=Traits("Compare", whole="It compares whole steps of two profiles."),
    scope="pair",
    borrows=BORROWED,
    http=ViewText(
        parameters=(
            "`base_run`, `base_worker`, `base_span` (the baseline; missing parts are those of the "
            "experiment), `base_window`, `base_steps`, `measure` (`device_self_ns`, `device_total_ns`, "
            "`host_self_ns`, `host_total_ns`; default: device self if both sides have a device and the "
            "largest change is on the device, else host self; device total for devices of different "
            "vendors; tables also `all`: one column per measure), `per` (`step`, `total`)."
        ),
        payloads=(
            "P and S are the experiment. Without `steps`, all recorded steps of a side are used. "
            "Profiles that are not loaded yet are loaded (`202`). `headline` (Figures), `waterfall` "
            "(Breakdown; absent when both sides contain only ranges), `compared` (Figures: the measure "
            "and scaling used), `findings` (Notices), `call_tree` (Tree, both sides aligned), and the "
            "tables' first pages."
        ),
        tables=(
            "`operators`, `operators_by_shape`, `kernels`, `modules`, `runtime_calls`, `settings`; "
            "`ranges` if a side contains only ranges (`serving_modes` if a side has step modes. If both "
            "sides used devices that are not GPUs or are of different vendors, also those of `overall`, "
            "`computing`, `communication`, `memory` and `kernels_by_operator` that have rows; "
            "`kernels_by_type` and `kernels_by_type_shape` if a side reports kernel types; `operators` "
            "and `operators_by_shape` then have `base_kernels`, `exp_kernels`, `delta_kernels`, and "
            "`compared_ratio` instead of `time_ratio`)."
        ),
    ),
)
