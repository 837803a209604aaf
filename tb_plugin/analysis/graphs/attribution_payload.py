"""Payloads on how replayed work was matched to operators.

All shares are shares of device time.
"""

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
            "Calls in replays",
            "Captured calls with device work, multiplied by replays of their graph.",
        ),
    },
)

# Title and meaning of each way.
WAYS: Mapping[Way, tuple[str, str]] = MappingProxyType(
    {
        Way.ANNOTATION: ("Annotations", "Operators recorded with the replayed work."),
        Way.CAPTURE: ("Capture in this trace", "Operators of the graph's capture in this trace."),
        Way.CAPTURE_TRACE: ("Capture trace", "Operators of the graph's capture in another trace."),
        Way.EAGER: ("Eager run", "Operators that launched the same work without a graph in this trace."),
        Way.GRAPH: ("Graph launch only", "No operators are known, only the graph launch."),
    }
)


def way_of(trace: TraceTable, rows: Int64, kind: EventKind) -> UInt8:
    """Returns how each replayed row was matched to an operator or module; ``Way.GRAPH`` if unmatched."""
    origins = origins_of(trace)
    ways = origins.way if kind == EventKind.OPERATOR else origins.module_way
    found = ways[np.searchsorted(origins.work, rows)].copy()
    found[scopes_behind(trace, rows, kind) == MISSING] = Way.GRAPH
    return found


def attribution_shares(trace: TraceTable, work: Int64, kind: EventKind) -> Breakdown | None:
    """Returns the device time of replays by ``Way``; None if nothing was matched."""
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
    return Breakdown(
        "replayed",
        "Device time of replays",
        "by the source of its operators and modules",
        "ns",
        int(times.sum()),
        slices,
    )
