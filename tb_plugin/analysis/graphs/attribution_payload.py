"""What views tell of replayed work: how it is known what stands behind it, and for how much time of the device."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.graphs.attribution import scopes_behind
from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.analysis.graphs.replays import has_replays
from tb_plugin.analysis.metrics import CHOSEN, define
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, Metric, Slice

Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]

REPLAYED = define(
    CHOSEN,
    "count",
    {
        "replayed_calls": (
            "In replays",
            "Calls of it that captured graphs stand for: those of the capture with device work, once for each replay. "
            "Nothing of them ran on the host. Where several captures tell of a graph, equal calls in one call are one.",
        ),
    },
)

WAYS: Mapping[Way, tuple[str, str]] = MappingProxyType(
    {
        Way.ANNOTATION: ("Annotations", "The profiler recorded the operator with the kernel."),
        Way.CAPTURE: ("Capture in this trace", "The capture of the graph is in the same trace."),
        Way.CAPTURE_TRACE: (
            "Capture trace",
            "Another trace has the capture of the graph, or the same work run eagerly.",
        ),
        Way.EAGER: (
            "Same work run eagerly",
            "The same work in the same order ran without a graph in this trace.",
        ),
        Way.GRAPH: ("Launch of the graph only", "Only what was open around the launch of the graph is known."),
    }
)
"""What each way is called, and what it says."""


def way_of(trace: TraceTable, rows: Int64, kind: EventKind) -> UInt8:
    """Returns how it is known which operator (or module) stands behind each replayed row; ``GRAPH`` where none is known."""
    origins = origins_of(trace)
    ways = origins.way if kind == EventKind.OPERATOR else origins.module_way
    found = ways[np.searchsorted(origins.work, rows)].copy()
    found[scopes_behind(trace, rows, kind) == MISSING] = Way.GRAPH
    return found


def attribution_shares(trace: TraceTable, work: Int64, kind: EventKind) -> Breakdown | None:
    """Returns the time of replays among some device work by how it is known what stands behind it; None: of none it is."""
    if not has_replays(trace):
        return None
    rows = work[np.isin(work, origins_of(trace).work)]
    times = np.zeros(len(Way), np.int64)
    np.add.at(times, way_of(trace, rows, kind), trace.dur_ns[rows])
    slices = [
        Slice(Metric(f"way_{way.name.lower()}", title, "ns", what, CHOSEN), f"slice{way.value}", int(times[way]))
        for way, (title, what) in WAYS.items()
        if times[way]
    ]
    if times.sum() == times[Way.GRAPH]:
        return None
    return Breakdown("replayed", "Device time of replays", "Source of the operator", "ns", int(times.sum()), slices)
