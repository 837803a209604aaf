"""The metrics of this view alone: backward time and compiled code."""

from __future__ import annotations

from tb_plugin.analyses.metrics import CHOSEN, SHARED, define
from tb_plugin.analyses.recomputation import METRICS as RECOMPUTATION

METRICS = SHARED.adding(
    RECOMPUTATION,
    define(
        "",
        "code",
        {
            "region": ("Region", "Compiled code, by the numbers of the function and of its compilation."),
            "compiled_code": (
                "Compiled code",
                "What was compiled: the function of the region; of a wrapper the module that it stands for, where the trace "
                "has it.",
            ),
            "regions": (
                "Regions",
                "Compiled code that it ran itself; a wrapper that of the module it stands for as well.",
            ),
            "region_modules": ("Modules", "Modules that ran it themselves, in order of execution."),
            "graph": ("Graph", "Key of the first compiled graph that the region called itself."),
            "backward_graph": (
                "Backward graph",
                "Key of the first one that ran in the backward pass of its operators.",
            ),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "backward_host_total_ns": (
                "Backward host",
                "Host time of the backward operators whose forward operator the module or its children called.",
            ),
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
