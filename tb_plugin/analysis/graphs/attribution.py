"""Operators of device work, including replayed work."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.analysis.graphs.replays import has_replays
from tb_plugin.analysis.metrics import CHOSEN, SUM, Metrics, define
from tb_plugin.lib.arrays import Bool, Int32, Int64, UInt8
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit
from tb_plugin.payloads import Breakdown, Metric, Notice, Slice

REPLAYED = define(
    CHOSEN,
    "count",
    {
        "replayed_calls": (
            "Calls in replays",
            "Captured calls with device work, multiplied by replays of their graph.",
            SUM,
        )
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
        Way.NONE: ("Nothing", "No recorded events enclose the graph launch."),
    }
)


def scopes_behind(trace: TraceTable, rows: npt.NDArray[np.integer], *kinds: EventKind) -> Int32:
    """Returns the innermost scope of these kinds around each replayed row, as an index into ``origins_of``; or -1."""
    if not has_replays(trace):
        return np.full(len(rows), MISSING, np.int32)
    origins = origins_of(trace)
    found: Int32 = origins.scopes.nearest(*kinds)[origins.at(rows)]
    return found


def operator_names(trace: TraceTable, rows: npt.NDArray[np.integer]) -> Int64:
    """Returns the operator of each device row, captured or launching, as a string id."""
    names: Int64 = np.append(trace.name, MISSING)[trace.operator[rows]].astype(np.int64)
    scope = scopes_behind(trace, rows, EventKind.OPERATOR)
    known = scope != MISSING
    if known.any():
        names[known] = origins_of(trace).scopes.name[scope[known]]
    return names


def has_operator(trace: TraceTable, rows: npt.NDArray[np.integer]) -> Bool:
    """Returns, for each device row, whether an operator encloses its launch or its capture."""
    found: Bool = (trace.operator[rows] != MISSING) | (scopes_behind(trace, rows, EventKind.OPERATOR) != MISSING)
    return found


def is_eligible(trace: TraceTable, rows: npt.NDArray[np.integer]) -> Bool:
    """Returns, for each device row, whether its operator can use matrix units, according to the operator name."""
    found: Bool = np.append(trace.matrix_eligible, False)[trace.operator[rows]]
    scope = scopes_behind(trace, rows, EventKind.OPERATOR)
    known = scope != MISSING
    if known.any():
        found[known] = origins_of(trace).scopes.is_eligible[scope[known]]
    return found


def counted_scopes(trace: TraceTable, work: Int64, is_visible: Bool) -> tuple[Int32, Bool]:
    """Returns the scope to which the time of each device row is added (-1 = none), and a mask of the rows that are
    attributed to a forward operator.

    Backward work is attributed to the scope of the forward operator, unless a backward scope selected by ``is_visible``
    encloses the work. The work is then attributed to its own scope.
    """
    origins = origins_of(trace)
    behind = origins.at(work)
    backward = np.zeros(len(work), np.bool_)
    if not is_visible.any() or (behind == MISSING).all():
        return behind, backward
    scopes = origins.scopes
    # One more entry is for -1, here and below.
    own = np.where(is_visible, np.arange(len(is_visible)), MISSING).astype(np.int32)
    around = np.append(inherit(own, scopes.parent), np.int32(MISSING))[behind]
    is_backward = np.append(scopes.is_backward, False)
    apart = is_backward[behind] & ~is_backward[around]
    forward = np.append(scopes.forward, np.int32(MISSING))[scopes.nearest(EventKind.OPERATOR)[behind]]
    return np.where(apart, forward, behind).astype(np.int32), apart & (forward != MISSING)


def way_of(trace: TraceTable, rows: Int64, kind: EventKind) -> UInt8:
    """Returns, for each replayed row, how it was matched to an operator or module; ``Way.GRAPH`` if unmatched."""
    origins = origins_of(trace)
    ways = origins.way if kind == EventKind.OPERATOR else origins.module_way
    found = ways[np.searchsorted(origins.work, rows)].copy()
    found[scopes_behind(trace, rows, kind) == MISSING] = Way.GRAPH
    return found


def way_slices(time_ns: Mapping[int, int], prefix: str, window: str) -> list[Slice]:
    return [
        Slice(
            Metric(f"{prefix}_{way.name.lower()}", title, "ns", what, window),
            "other" if way == Way.NONE else f"slice{way.value}",
            time_ns[way],
        )
        for way, (title, what) in WAYS.items()
        if time_ns[way]
    ]


def attribution_shares(trace: TraceTable, work: Int64, kind: EventKind) -> Breakdown | None:
    """Returns the device time of replays, by the ``Way`` of matching; None if no replayed work was matched."""
    if not has_replays(trace):
        return None
    rows = work[np.isin(work, origins_of(trace).work)]
    times = np.zeros(len(Way), np.int64)
    np.add.at(times, way_of(trace, rows, kind), trace.dur_ns[rows])
    slices = way_slices(dict(enumerate(times.tolist())), "way", SUM + CHOSEN)
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


def empty_capture_notice(rule: str, trace: TraceTable, metrics: Metrics, key: str) -> Notice | None:
    """Returns the notice about a selected capture trace that contains no captures. ``key`` is the metric of its name."""
    if not trace.captured.source or trace.captured:
        return None
    text = f"{{{key}}} contains no captures and no device work, so it cannot name operators of replayed graphs."
    source = metrics.figure(key, trace.captured.source)
    return Notice(rule, "medium", text, "Choose another capture, or none.", [source])
