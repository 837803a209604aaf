"""Metrics of Modules: backward time and compiled code."""

from __future__ import annotations

from tb_plugin.analysis.compiled.metrics import BACKWARD_HOST, REGIONS
from tb_plugin.analysis.graphs.attribution_payload import REPLAYED
from tb_plugin.analysis.metrics import CHOSEN, SHARED, define
from tb_plugin.analysis.recomputation import METRICS as RECOMPUTATION

METRICS = SHARED.adding(
    REPLAYED,
    REGIONS,
    BACKWARD_HOST,
    RECOMPUTATION,
    define(
        "",
        "code",
        {
            "regions": (
                "Regions",
                "Compiled code that it ran itself; a wrapper that of the module it stands for as well.",
            ),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "backward_apart_ns": (
                "Host time of no module",
                "Host time of the backward operators that count for no module.",
            ),
            "backward_device_self_ns": (
                "Backward self",
                "Device time launched by backward operators whose forward operator the module called directly.",
            ),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "backward_apart": (
                "Of no module",
                "Backward operators that count for no module: they began in none, nor did the forward operator of any.",
            ),
            "backward_apart_untied": ("Not tied", "Of these, operators whose forward operator is not known."),
        },
    ),
)
