"""Metrics of modules: backward time and compiled code."""

from __future__ import annotations

from tb_plugin.analysis.compiled.regions import BACKWARD_HOST, REGIONS
from tb_plugin.analysis.graphs.attribution import REPLAYED
from tb_plugin.analysis.metrics import CHOSEN, SHARED, SUM, define
from tb_plugin.analysis.recomputation import METRICS as RECOMPUTATION
from tb_plugin.analysis.work.rates import METRICS as RATES

METRICS = SHARED.adding(
    REPLAYED,
    REGIONS,
    BACKWARD_HOST,
    RECOMPUTATION,
    RATES,
    define(CHOSEN, "count", {"layers": ("Layers", "Number of modules of one class under the same parent.")}),
    define(
        CHOSEN,
        "ratio",
        {
            "module_share": ("Share", "Total time of the module divided by the total time of all top-level modules."),
            "layer_spread": ("Spread", "Longest minus shortest layer, divided by their mean."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "layer_mean_ns": ("Mean per layer", "Total time divided by the number of layers.", SUM),
            "module_own_ns": ("Own", "Total time of the modules minus the total time of their submodules.", SUM),
        },
    ),
    define("", "code", {"regions": ("Regions", "Compiled regions run directly by the module.")}),
    define(
        CHOSEN,
        "ns",
        {
            "backward_apart_ns": ("Host time without module", "Host time of backward operators without a module.", SUM),
            "backward_device_self_ns": (
                "Backward self",
                "Device time of backward operators matched to the module itself.",
                SUM,
            ),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "backward_apart": ("Without module", "Backward operators without a module.", SUM),
            "backward_apart_untied": ("Unmatched", "Backward operators without module or known forward operator."),
        },
    ),
)
