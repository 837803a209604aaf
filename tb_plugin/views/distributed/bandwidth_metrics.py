"""Metrics of collective bandwidth."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, define

OF_BANDWIDTHS = (
    define(
        CHOSEN,
        "bytes_per_second",
        {
            "typical_bus_bandwidth": ("Bus bandwidth", "Size times the factor of nccl-tests over the median transfer."),
            "fitted_bus_bandwidth": (
                "Fit",
                "The same of the fitted time: latency, and size times the factor over the fitted bandwidth.",
            ),
            "fit_bandwidth": (
                "Fitted bandwidth",
                "What the bus moves of large messages: the time of a transfer grows by size times the factor over this.",
            ),
            "link_peak": (
                "Peak of links",
                "What the links of a device to the others of its node move at most in one direction, by its data sheet.",
            ),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "fit_latency_ns": (
                "Fitted latency",
                "The part of the time of a transfer that does not depend on its size.",
            ),
            "median_transfer_ns": (
                "Median transfer",
                "Median of the data transfer of these collectives; of an even number the smaller in the middle.",
            ),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "fit_deviation": (
                "Away from the fit",
                "Difference between median transfer and fit, over the fit, that three quarters of the sizes do not exceed.",
            ),
            "link_share": (
                "Share of the links",
                "Bus bandwidth over the peak of the devices' links, of groups on one node.",
            ),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "met": ("Collectives", "Collectives of which all ranks are here, with a known size and factor."),
            "fit_sizes": ("Sizes", "Sizes of collectives that the line is fitted to."),
            "node_count": ("Nodes", "Number of nodes."),
            "same_groups": ("Groups", "Process groups of this kind."),
            "same_devices": ("Devices", "Devices of this kind."),
            "node_sets": ("Compared", "Sets of as many nodes that the same collectives run on."),
        },
    ),
    define(
        CHOSEN,
        "number",
        {
            "slowdown": (
                "Times the others",
                "Median transfer of a kind of collective over the median of all sets of as many nodes; median of the kinds.",
            ),
        },
    ),
)
