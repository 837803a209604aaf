"""The view ``overview``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "overview",
    "Overview",
    order=10,
    model=TRACE,
    traits=Traits(
        "Summary", kept=True, whole="Overview covers whole steps and devices, not phases.", tables=("steps",)
    ),
    http=ViewText(
        payloads=(
            "`headline` (Figures), `largest_costs` (Notices about `answer`: the sentence that says what limits "
            "the program; its figure `limit` is the word for it), `steps` (Series, stacked bars; absent when no "
            "steps were recorded), `average_step` (Breakdown; absent where kernels are missing that the profile "
            "states), `outside_steps` (Figures; absent where next to nothing was recorded there), `findings` "
            "(Notices, the same as those of `findings`, also `without` what is left out), `left_out` (Figures: "
            "how many findings that is; absent without any), `device_time_<id>` (Breakdown, one a device), "
            "`device_steps_<id>` (Breakdown: the mean step on the device; of NPUs), `device_idle_<id>` "
            "(Breakdown: its idle part by cause; absent where it is never idle), `device_classes_<id>` "
            "(Breakdown: its compute time by class of kernel), `device_cores_<id>` (Breakdown: its kernel time by "
            "kind of cores, where the profile states them), `device_<id>` (Figures, one a device), `trace_health` "
            "(Figures), `configuration` (Figures), `data_quality` (Notices). Of a trace with nothing but ranges: "
            "`headline`, `largest_costs`, `trace_health`, `configuration` and `data_quality`."
        ),
        tables=(
            "`steps`; of NPUs `steps_of_devices` and `stated_steps` (the times of steps that the profile states, "
            "empty without any); of a trace with nothing but ranges `longest_ranges`, `busiest_threads`, "
            "`operations` (absent without any)."
        ),
    ),
)
