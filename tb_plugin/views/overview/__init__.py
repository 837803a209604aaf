"""The ``overview`` view."""

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
        "overview", cached=True, phase_note="Overview covers whole steps and devices, not phases.", tables=("steps",)
    ),
    http=ViewText(
        payloads=(
            "`headline` (Figures), `largest_costs` (Notices about `answer`: a sentence about what limits the "
            "program; the figure `limit` contains the name of the limit), `steps` (Series, stacked bars; "
            "absent without recorded steps), `average_step` (Breakdown; absent if reported kernels are "
            "missing), `outside_steps` (Figures; absent if negligible), `findings` (Notices; as in the view "
            "`findings`, also with `without`), `left_out` (Figures: the number of dismissed findings; absent "
            "without any), `device_time_<id>` (Breakdown, one per device), `device_steps_<id>` (Breakdown: "
            "the mean step on the device; for NPUs), `device_idle_<id>` (Breakdown: its idle time by cause; "
            "absent without idle time), `device_classes_<id>` (Breakdown: compute time by kernel class), "
            "`device_cores_<id>` (Breakdown: kernel time by type of core, if reported), `device_<id>` "
            "(Figures, one per device), `trace_health` (Figures), `configuration` (Figures), `data_quality` "
            "(Notices). Traces with only ranges have `headline`, `largest_costs`, `trace_health`, "
            "`configuration` and `data_quality`."
        ),
        tables=(
            "`steps`. For NPUs, also `steps_of_devices` and `stated_steps` (reported step times, empty "
            "without any). For traces with only ranges, also `longest_ranges`, `busiest_threads`, "
            "`operations` (absent without any)."
        ),
    ),
)
