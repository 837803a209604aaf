"""Metrics of collective bandwidth."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, define

OF_BANDWIDTHS = (
    define(
        CHOSEN,
        "bytes_per_second",
        {
            "typical_bus_bandwidth": (
                "Bus bandwidth",
                "Size multiplied by the nccl-tests factor, divided by median transfer time.",
            ),
            "fitted_bus_bandwidth": ("Fit", "Bus bandwidth from the fitted transfer time."),
            "fit_bandwidth": ("Fitted bandwidth", "Slope of the fit: bus bandwidth of large messages."),
            "link_peak": ("Link peak", "Data-sheet bandwidth of a device's links, in one direction."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "fit_latency_ns": ("Fitted latency", "Intercept of the fit: transfer time at size 0."),
            "median_transfer_ns": ("Median transfer", "Median transfer time of these collectives."),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "fit_deviation": ("Fit deviation", "Relative deviation from the fit: 75th percentile over sizes."),
            "link_share": ("Share of link peak", "Bus bandwidth divided by link peak, for groups within a node."),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "met": ("Collectives", "Collectives with all ranks loaded, a known size and a known factor."),
            "fit_sizes": ("Sizes", "Distinct sizes in the fit."),
            "node_count": ("Nodes", "Nodes of the group."),
            "same_groups": ("Groups", "Process groups of this kind."),
            "same_devices": ("Devices", "Devices of this kind."),
            "node_sets": ("Compared", "Node sets with the same collectives and number of nodes."),
        },
    ),
    define(
        CHOSEN,
        "number",
        {
            "slowdown": (
                "Slowdown",
                "Median transfer time divided by the median over all node sets.",
            ),
        },
    ),
)
