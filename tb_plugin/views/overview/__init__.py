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
            "`headline` (Figures), `largest_costs` (Notices about `answer`: the sentence about the main "
            "bottleneck; its figure `limit` names it), `steps` (Series, stacked bars; absent when no "
            "steps were recorded), `average_step` (Breakdown; absent when reported kernels are missing), "
            "`outside_steps` (Figures; absent when almost nothing was recorded outside steps), "
            "`findings` (Notices, as in `findings`, also with `without`), `left_out` (Figures: number of "
            "excluded findings; absent without any), `device_time_<id>` (Breakdown, one per device), "
            "`device_steps_<id>` (Breakdown: the mean step on the device; only NPUs), `device_idle_<id>` "
            "(Breakdown: its idle time by cause; absent when it is never idle), `device_classes_<id>` "
            "(Breakdown: its compute time by class of kernel), `device_cores_<id>` (Breakdown: its "
            "kernel time by kind of cores, if reported), `device_<id>` (Figures, one per device), "
            "`trace_health` (Figures), `configuration` (Figures), `data_quality` (Notices). For a trace "
            "with only ranges: `headline`, `largest_costs`, `trace_health`, `configuration` and "
            "`data_quality`."
        ),
        tables=(
            "`steps`; for NPUs `steps_of_devices` and `stated_steps` (reported step times, empty without "
            "any); for a trace with only ranges `longest_ranges`, `busiest_threads`, `operations` "
            "(absent without any)."
        ),
    ),
)
