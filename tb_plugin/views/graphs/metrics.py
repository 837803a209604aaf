"""Metrics of graphs and their replays."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, define
from tb_plugin.analysis.unattributed_kernels import METRICS as OF_LAUNCHES

METRICS = OF_LAUNCHES.adding(
    define(
        "",
        "text",
        {
            "captured_graph": ("Graph", "Recorded graph id, else #1, #2, ..."),
            "graph_way": ("Known by", "Main source of the graph's operators."),
            "graph_source": ("Source", "Capture trace with the operators."),
            "graph_agreement": (
                "Matching nodes",
                "Equal nodes at the start of the graph and of the most similar capture.",
            ),
            "node_way": ("Known by", "Source of the node's operator or module."),
        },
    ),
    define(
        "",
        "code",
        {
            "node_operator": ("Operator", "Innermost operator around the captured launch."),
            "node_module": ("Module", "Innermost module or region around the captured launch."),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "graphs": ("Graphs", "Captured graphs with replays."),
            "replays": ("Replays", "Graph launches with device work."),
            "graph_nodes": ("Nodes", "Kernels, copies and memsets per replay."),
            "graph_node": ("Node", "Position in the graph."),
            "node_replays": ("Replays", "Replays of the node."),
            "node_repeat": ("Repeat", "Number of the inferred repeat containing the node."),
            "graph_repeats": ("Repeats", "Inferred repeats inside the graph, such as layers."),
            "repeat_nodes": ("Nodes per repeat", "Nodes in a repeat."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "graph_device_ns": ("Device time", "Device time of all replays; concurrent streams add up."),
            "graph_mean_ns": ("Mean per replay", "Device time divided by replays."),
            "node_gaps_ns": ("Gaps between nodes", "Idle time inside replays, summed."),
            "replay_gaps_ns": ("Gaps between replays", "Device idle time before replays, summed."),
            "replay_gap_ns": ("Gap before", "Device idle time since the previous replay."),
            "replay_node_gaps_ns": ("Gaps between nodes", "Idle time inside the replay."),
            "graph_launch_ns": ("Launches", "Host time of the graph launches."),
            "node_total_ns": ("Device time", "Device time of the node over all replays."),
            "node_mean_ns": ("Mean", "Device time divided by replays."),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "replayed_ratio": ("Replayed", "Share of device time in replays."),
            "graph_tied_ratio": ("Matched to operators", "Share of replay device time with known operators."),
            "node_share": ("Share", "Node device time divided by graph device time."),
            "repeat_ratio": ("In repeats", "Share of graph device time in repeats."),
            "node_gaps_ratio": ("Idle inside", "Gap time between nodes divided by replay time."),
        },
    ),
)
