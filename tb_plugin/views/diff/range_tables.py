"""Comparison of traces that contain only ranges."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.analysis.range_names import ranges_by_name
from tb_plugin.analysis.range_traces import is_range_trace
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Notice
from tb_plugin.views.diff.metrics import METRICS
from tb_plugin.views.diff.paired_tables import RANGES, Scaling, join


def range_frames(trace: TraceTable) -> dict[str, Frame]:
    """Returns the table of ranges by name; empty for traces with other events."""
    if not is_range_trace(trace):
        return {}
    data = ranges_by_name(trace)
    columns = METRICS.columns(*data.column_names)
    return {RANGES.name: Frame(RANGES.name, RANGES.title, columns, data, ("name",), "name")}


def are_range_traces(*sides: Part) -> bool:
    """Returns whether both sides contain only ranges."""
    return all(RANGES.name in side.frames for side in sides)


def own_ns(part: Part) -> int:
    """Returns the time in ranges, summed over threads. Time in nested ranges counts once."""
    return int(pc.sum(part.frames[RANGES.name].data["range_own_ns"]).as_py() or 0)


def changed_most(base: Part, exp: Part) -> Sequence[Notice]:
    """Returns a finding about the range with the largest change of self time. Without changes, the result is empty."""
    before, after = own_ns(base), own_ns(exp)
    data = join(base, RANGES, exp, "host_self_ns", Scaling("total", 1, 1), slower=True).data
    if not data.num_rows:
        return []
    at = int(pc.index(pc.abs(data["delta_ns"]), pc.max(pc.abs(data["delta_ns"]))).as_py())
    change = data["delta_ns"][at].as_py()
    if not change:
        return []
    figures = [
        METRICS.figure("leading_row", data["name"][at].as_py()),
        METRICS.figure("leading_row_delta_ns", change),
        METRICS.figure("delta_ranges_ns", after - before),
    ]
    text = (
        "Largest change: {leading_row} ({leading_row_delta_ns} of self time). Total time in ranges: {delta_ranges_ns}."
    )
    return [Notice("ranges_changed", "info", text, "", figures, "leading_row_delta_ns")]
