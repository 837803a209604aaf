"""Metrics of compiled code, shared by views."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, define

REGIONS = define(
    "",
    "code",
    {
        "region": ("Region", "Compiled region: function number / compilation number."),
        "compiled_code": ("Compiled code", "Compiled function, or the module of a wrapper."),
        "region_modules": ("Modules", "Modules that ran the region directly, in order."),
        "graph": ("Graph", "Key of the first compiled graph of the region."),
        "backward_graph": ("Backward graph", "Key of the first compiled graph in the region's backward pass."),
    },
)

BACKWARD_HOST = define(
    CHOSEN,
    "ns",
    {
        "backward_host_total_ns": (
            "Backward host",
            "Host time of backward operators matched to the module and its children.",
        ),
    },
)
