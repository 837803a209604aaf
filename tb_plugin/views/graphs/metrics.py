"""Numbers of graphs and of their replays."""

from __future__ import annotations

from tb_plugin.analysis.metrics import CHOSEN, define
from tb_plugin.analysis.unattributed_kernels import METRICS as OF_LAUNCHES

METRICS = OF_LAUNCHES.adding(
    define(
        "",
        "text",
        {
            "captured_graph": (
                "Graph",
                "Id of the captured graph as recorded; #1, #2, ... count those without one, or with one that several have.",
            ),
            "graph_way": (
                "Known by",
                "Where the operator, module or phase behind the graph's device time is known from; of several ways that of "
                "most of it.",
            ),
            "graph_source": ("Source", "The capture trace, where one tells."),
            "graph_agreement": (
                "Capture agrees",
                "Nodes from the first one on that agree with the capture; the others have no operator. Absent where all do.",
            ),
            "refused_source": ("Recording", "Recording that was compared: this trace, or another one."),
            "refusal": ("First difference", "Why the recording does not tell what stands behind the graph."),
            "node_way": ("Known by", "Where the operator of the node is known from, else its module or phase."),
        },
    ),
    define(
        "",
        "code",
        {
            "node_operator": ("Operator", "Innermost operator around the launch that the node was captured from."),
            "node_module": (
                "Module",
                "Innermost module, or annotated region, around the launch that the node was captured from.",
            ),
        },
    ),
    define(
        CHOSEN,
        "count",
        {
            "graphs": ("Graphs", "Captured graphs with replays: told apart by recorded id, else by what they run."),
            "replays": ("Replays", "Launches of the graph that brought work on a device."),
            "graph_nodes": ("Nodes", "Kernels, copies and sets of one replay; of replays that differ the most."),
            "graph_node": ("Node", "Place in the order of the graph."),
            "node_replays": ("Replays", "How often the node ran."),
            "node_repeat": (
                "Repeat",
                "Number of the repeated part that the node stands in (inferred from the names of the kernels).",
            ),
            "graph_repeats": (
                "Repeats",
                "How often the same kernels follow each other inside the graph, layers as a rule: of all lengths from 4 "
                "nodes the one that covers most, at least half of the graph (inferred).",
            ),
            "repeat_nodes": ("Nodes of a repeat", "Length of the part that repeats."),
        },
    ),
    define(
        CHOSEN,
        "ns",
        {
            "graph_device_ns": ("Device time", "Durations of all work of the replays. Concurrent streams add up."),
            "graph_mean_ns": ("Mean a replay", "Device time over replays."),
            "node_gaps_ns": (
                "Gaps between nodes",
                "Time between the begin and the end of a replay's work in which none of it runs, over all replays.",
            ),
            "replay_gaps_ns": (
                "Gaps between replays",
                "Time since the work of the replay before (of any graph on the device) in which the device runs nothing; "
                "the first replay has none.",
            ),
            "replay_gap_ns": (
                "Gap before",
                "Time since the work of the replay before (of any graph on the device) in which the device runs nothing.",
            ),
            "replay_node_gaps_ns": (
                "Gaps between nodes",
                "Time between the begin and the end of the replay's work in which none of it runs.",
            ),
            "graph_launch_ns": ("Launches", "Time on the host in the calls that launch the graph."),
            "separate_launch_ns": (
                "Launched separately",
                "What launches of their own would cost the host (estimated): the median duration of the calls in this trace "
                "that launch one piece of work, times the work that was replayed. Absent without such calls.",
            ),
            "node_total_ns": ("Device time", "Durations of the node over all replays."),
            "node_mean_ns": ("Mean", "Device time over replays."),
        },
    ),
    define(
        CHOSEN,
        "ratio",
        {
            "replayed_ratio": ("Replayed", "Device time of replays over that of all device work."),
            "graph_tied_ratio": ("Tied to operators", "Part of the replays' device time whose operators are known."),
            "node_share": ("Share", "Part of the graph's device time."),
            "repeat_ratio": ("In repeats", "Part of the graph's device time in the repeated parts."),
            "node_gaps_ratio": (
                "Idle inside",
                "Gaps between nodes over the time from the begin to the end of each replay's work.",
            ),
        },
    ),
)
