"""Device time without an operator, by reason."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.annotations import annotation_around
from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.code_lines import code_lines
from tb_plugin.analysis.demangle import readable_names
from tb_plugin.analysis.forest import with_ancestors
from tb_plugin.analysis.metrics import SHARED
from tb_plugin.analysis.range_patterns import module_label
from tb_plugin.lib.arrays import Bool, Int32, Int64, UInt8
from tb_plugin.lib.groupby import group, places_of, shares
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING, CallRole, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit
from tb_plugin.payloads import Breakdown, Metric, Slice, Sort

METRICS = SHARED.defining(
    {
        ("", "text"): {"reason": ("Reason", "Reason for the missing operator.")},
        ("", "code"): {
            "launch_phase": ("Phase", "Innermost annotation around the launch, except step annotations."),
            "launch_module": ("Module", "Innermost module call around the launch."),
            "launch_frame": ("Python line", "Python line of the launch, outside the framework if possible."),
        },
    }
)


class Reason(IntEnum):
    """Reason why device work has no operator. If several reasons apply, the reason that is defined first is used."""

    OUTSIDE = 0
    GRAPH = 1
    BARE = 2
    BEFORE = 3
    UNRECORDED = 4


_REASONS: Mapping[Reason, tuple[str, str]] = MappingProxyType(
    {
        Reason.OUTSIDE: (
            "operator outside of the selection",
            "The operator started outside the selected steps or phase.",
        ),
        Reason.GRAPH: ("graph replay", "A replayed graph launched the work, without operators."),
        Reason.BARE: (
            "launched outside of operators",
            "No operator was running when the work was launched, or operators were not recorded.",
        ),
        Reason.BEFORE: ("launched before the recording", "Launched before the first recorded call."),
        Reason.UNRECORDED: ("no launch recorded", "The launch is missing from the trace."),
    }
)


def unattributed_reasons(trace: TraceTable, rows: Int64) -> UInt8:
    """Returns the ``Reason`` of each device row that has no selected operator."""
    launch = trace.launch[rows]
    found = np.where(launch == MISSING, Reason.UNRECORDED, Reason.BARE)
    found[(launch != MISSING) & trace.calls_that(CallRole.GRAPH)[launch]] = Reason.GRAPH
    found[(launch == MISSING) & _launched_before(trace)[rows]] = Reason.BEFORE
    found[trace.operator[rows] != MISSING] = Reason.OUTSIDE
    return found.astype(np.uint8)


@cached_by_argument
def _launched_before(trace: TraceTable) -> Bool:
    """Returns a mask of work launched before the recording; valid only for work without a recorded launch."""
    calls = trace.correlation[trace.kind == EventKind.RUNTIME]
    first_call = int(calls[calls > 0].min(initial=np.iinfo(np.int64).max))
    numbered = trace.correlation > 0
    # A stream executes work in launch order.
    first_launched = np.full(len(trace.tracks), -1, np.int64)
    launched = np.flatnonzero(trace.launch != MISSING)[::-1]
    first_launched[trace.track[launched]] = trace.start_ns[launched]  # the earliest is written last
    ahead = trace.start_ns < first_launched[trace.track]
    found: Bool = np.where(numbered & (len(calls) > 0), trace.correlation < first_call, ahead)
    return found


def reason_times(trace: TraceTable, rows: Int64) -> dict[Reason, int]:
    """Returns the summed durations of these device rows by reason."""
    totals = np.zeros(len(Reason), np.int64)
    np.add.at(totals, unattributed_reasons(trace, rows), trace.dur_ns[rows])
    return {reason: int(totals[reason]) for reason in Reason}


def reason_breakdown(times: Mapping[Reason, int], metric: Metric) -> Breakdown:
    """Returns a breakdown of the device time that has no operator, by reason, largest first."""
    order = sorted((reason for reason in times if times[reason]), key=lambda reason: -times[reason])
    slices = []
    for reason in order:
        title, what = _REASONS[reason]
        part = Metric(reason.name.lower(), title.capitalize(), metric.unit, what, metric.window)
        slices.append(Slice(part, f"slice{reason.value}", times[reason]))
    return Breakdown("no_operator", "Device time without an operator", "", "ns", sum(times.values()), slices, "bar")


def kernels_without(trace: TraceTable, rows: Int64) -> Frame:
    """Returns a table of these device rows by name and reason, and by phase, module and Python line of the launch."""
    launch, lines = trace.launch[rows], code_lines(trace)
    keys = (
        trace.name[rows],
        unattributed_reasons(trace, rows),
        annotation_around(trace, launch),
        lines.of[launch],
        module_around(trace, launch),
    )
    groups = group(*(key.astype(np.int64) for key in keys))
    name, reason, phase, frame, module = (key.astype(np.int64)[groups.first] for key in keys)
    strings, total = trace.strings, groups.sum(trace.dur_ns[rows])
    names = strings.take(name)
    data = {
        "name": names,
        "calls": pa.array(groups.count()),
        "total_ns": pa.array(total),
        "total_share": pa.array(shares(total)),
        "reason": pa.array([_REASONS[Reason(each)][0] for each in reason.tolist()], pa.string()),
        "launch_phase": strings.take(phase),
        "launch_module": pa.array(
            [None if each is None else module_label(each) for each in strings.take(module).to_pylist()],
            pa.large_string(),
        ),
        "launch_frame": lines.texts.take(pa.array(frame, mask=frame == MISSING)),
    }
    readable = pa.array(readable_names(names.to_pylist()), pa.large_string())
    if readable.null_count < len(readable):
        data["readable"] = readable
    row_key = ("name", "reason", "launch_phase", "launch_module", "launch_frame")
    order = [("total_ns", "descending"), *((key, "ascending") for key in row_key)]
    columns_shown = METRICS.columns(*data, hidden=("readable",), share=("total_ns",))
    table = sorted_by(pa.table(data), order)
    return Frame("no_operator", "Without an operator", columns_shown, table, row_key, "name", Sort("total_ns", True))


def module_around(trace: TraceTable, launch: Int32) -> Int32:
    """Returns the name (string id) of the innermost module call that encloses each launch (-1 = none)."""
    around = np.where(launch == MISSING, MISSING, trace.python_parent[launch])
    members, parent = with_ancestors(trace.python_parent, around)
    is_module = trace.kind[members] == EventKind.MODULE
    nearest = inherit(np.where(is_module, np.arange(len(members)), MISSING).astype(np.int32), parent)
    # One more entry at the end is for -1, in both.
    module = np.append(members, MISSING)[np.append(nearest, MISSING)[places_of(members, len(trace))[around]]]
    return np.where(module == MISSING, MISSING, trace.name[module]).astype(np.int32)
