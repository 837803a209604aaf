"""Metrics of compiled code, shared by views."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, define

REGIONS = define(
    "",
    "code",
    {
        "region": ("Region", "Compiled code, by the numbers of the function and of its compilation."),
        "compiled_code": (
            "Compiled code",
            "What was compiled: the function of the region; of a wrapper the module that it stands for, where the trace "
            "has it.",
        ),
        "region_modules": ("Modules", "Modules that ran it themselves, in order of execution."),
        "graph": ("Graph", "Key of the first compiled graph that the region called itself."),
        "backward_graph": (
            "Backward graph",
            "Key of the first one that ran in the backward pass of its operators.",
        ),
    },
)

BACKWARD_HOST = define(
    CHOSEN,
    "ns",
    {
        "backward_host_total_ns": (
            "Backward host",
            "Host time of the backward operators whose forward operator the module or its children called.",
        ),
    },
)
