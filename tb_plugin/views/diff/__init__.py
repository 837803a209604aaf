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
            "`base_run`, `base_worker`, `base_span` (the baseline; what is left out is the experiment's), "
            "`base_window`, `base_steps`, `measure` (`device_self_ns`, `device_total_ns`, `host_self_ns`, "
            "`host_total_ns`; default: device self where both sides have a device and a part of the step on the "
            "device changed most, else host self; device total where the devices are of different makers; tables "
            "also `all`: a column of each), `per` (`step`, `total`)."
        ),
        payloads=(
            "P and S are the experiment. Without `steps` all recorded steps of a side count. Profiles that are "
            "not loaded yet are loaded (`202`). `headline` (Figures), `waterfall` (Breakdown; absent where both "
            "sides hold nothing but ranges), `compared` (Figures: the measure and scaling in force), `findings` "
            "(Notices), `call_tree` (Tree, both sides aligned), and the tables' first pages."
        ),
        tables=(
            "`operators`, `operators_by_shape`, `kernels`, `modules`, `runtime_calls`, `settings`; `ranges` where "
            "a side holds nothing but ranges (`serving_modes` where a side knows modes of steps; where both sides "
            "worked on devices, of different makers or of others than GPUs, also `overall`, `computing`, "
            "`communication`, `memory` and `kernels_by_operator`, those that have rows; `kernels_by_type` and "
            "`kernels_by_type_shape` where a side states types of kernels; `operators` and `operators_by_shape` "
            "then have `base_kernels`, `exp_kernels`, `delta_kernels`, and `compared_ratio` in place of "
            "`time_ratio`)."
        ),
    ),
)
