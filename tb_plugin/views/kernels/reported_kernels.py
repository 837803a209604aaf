"""Tables of kernel properties that the profiler reports."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.filters import EVENT
from tb_plugin.analysis.graphs.attribution import operator_names
from tb_plugin.analysis.kernel_facts import first_reported_text
from tb_plugin.analysis.metrics import SHARED, define
from tb_plugin.lib.arrays import Int32, Int64
from tb_plugin.lib.groupby import Groups, group, ratio, shares
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.extra_columns import OpenColumn
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, Column, Link, Metric, Slice, Sort, Unit

METRICS = SHARED.adding(
    define(
        "",
        "code",
        {
            "kernel_type": ("Type", "Reported kernel type."),
            "core": ("Core", "Reported type of core that ran the kernel."),
            "kernel_shapes": ("Input shapes", "Reported input shapes of the kernel."),
        },
    )
)
# Maximum number of listed kernels, longest first. Each has dozens of properties.
MOST_ROWS = 100_000
STATISTICS = ("calls", "total_ns", "total_share", "mean_ns", "min_ns", "max_ns", "p50_ns", "p99_ns")
_NOT_STATED = "not stated"


def statistics(groups: Groups, dur: Int64) -> dict[str, pa.Array]:
    calls, total = groups.count(), groups.sum(dur)
    p50, p99 = groups.percentiles(dur, 0.5, 0.99)
    data = {
        "calls": calls,
        "total_ns": total,
        "total_share": shares(total),
        "mean_ns": ratio(total, calls),
        "min_ns": groups.min(dur),
        "max_ns": groups.max(dur),
        "p50_ns": p50,
        "p99_ns": p99,
    }
    return {key: pa.array(values) for key, values in data.items()}


def frames_of(trace: TraceTable, kernels: Int64) -> dict[str, Frame]:
    """Returns the tables of kernel properties that the profiler reports; empty without reported properties."""
    facts, frames = trace.recorder.kernels, dict[str, Frame]()
    if not facts.first:
        return frames
    chosen = np.zeros(len(trace), np.bool_)
    chosen[kernels] = True
    known = {column.key for column in trace.others if chosen[column.row].any()}
    if known & set(facts.type):
        frames["kernels_by_type"] = _by(trace, kernels, "kernels_by_type", "Kernels by type", ("kernel_type", "core"))
        if known & set(facts.shapes):
            title = "Kernels by type and shapes"
            frames["kernels_by_type_shape"] = _by(
                trace, kernels, "kernels_by_type_shape", title, ("kernel_type", "kernel_shapes")
            )
    if known & {*facts.type, *facts.core, *facts.first}:
        frames["kernel_rows"] = _rows(trace, kernels, [column for column in trace.others if column.key in known])
    return frames


def core_times(trace: TraceTable, kernels: Int64, linked: bool) -> Breakdown | None:
    """Returns kernel time by kind of core, None if not reported. If ``linked``, slices link to the table by type."""
    core = first_reported_text(trace, trace.recorder.kernels.core, kernels)
    if not (core != MISSING).any():
        return None
    groups = group(core)
    total = groups.sum(trace.dur_ns[kernels])
    metric = METRICS.metric("total_ns")
    slices: list[Slice] = []
    for place in np.argsort(-total, kind="stable").tolist():
        stated = trace.strings[int(core[groups.first[place]])]
        text = stated or _NOT_STATED
        where = {"group": "kernels_by_type", "where": f"core:{stated}"}
        link = Link("kernels", where, text) if linked else None
        own = Metric(text, text, metric.unit, f"{metric.definition} Kernels on {text}.", metric.window)
        slices.append(Slice(own, f"slice{len(slices)}" if len(slices) < 10 else "rest", int(total[place]), link))
    return Breakdown("cores", "Cores", METRICS.metric("core").definition, "ns", int(total.sum()), slices, "donut")


def _by(trace: TraceTable, kernels: Int64, name: str, title: str, keys: tuple[str, ...]) -> Frame:
    facts = trace.recorder.kernels
    named: Mapping[str, tuple[str, ...]] = {
        "kernel_type": facts.type,
        "core": facts.core,
        "kernel_shapes": facts.shapes,
    }
    ids = {key: first_reported_text(trace, named[key], kernels) for key in keys}
    groups = group(*ids.values())
    data = {key: _texts(trace, of[groups.first]) for key, of in ids.items()}
    data |= statistics(groups, trace.dur_ns[kernels])
    columns = METRICS.columns(*keys, *STATISTICS, hidden=("p50_ns", "p99_ns"), share=("total_ns",))
    order = [("total_ns", "descending"), *((key, "ascending") for key in keys)]
    return Frame(name, title, columns, sorted_by(pa.table(data), order), keys, keys[0], Sort("total_ns", True))


def _texts(trace: TraceTable, ids: Int32) -> pa.Array:
    return trace.strings.take(ids).fill_null("")


def _rows(trace: TraceTable, kernels: Int64, stated: list[OpenColumn]) -> Frame:
    rows = kernels[np.argsort(-trace.dur_ns[kernels], kind="stable")[:MOST_ROWS]]
    devices = pa.array([*(device.id for device in trace.devices), None], pa.string())
    data = {
        "name": trace.strings.take(trace.name[rows]),
        "dur_ns": pa.array(trace.dur_ns[rows]),
        "start_ns": pa.array(trace.start_ns[rows]),
        "operator": trace.strings.take(operator_names(trace, rows)),
        "device": devices.take(pa.array(trace.device[rows].astype(np.int64) % len(devices))),
        "event": pa.array(rows),
    }
    columns = METRICS.columns("name", "dur_ns", "start_ns", "operator", "device", hidden=("start_ns", "device"))
    for key in trace.recorder.kernels.step:
        found = [column for column in stated if column.key == key]
        if found and "step" not in data:
            data["step"] = pc.cast(_values(trace, found[0], rows)[0], pa.string())
            columns += METRICS.columns("step")
    first = {key: place for place, key in enumerate(trace.recorder.kernels.first)}
    facts = sorted(stated, key=lambda column: first.get(column.key, len(first)))
    for column in facts:
        key = f"args.{column.key}"
        title = column.title or column.key
        values, unit = _values(trace, column, rows)
        data[key] = values
        metric = Metric(key, title, unit, f"Reported for the kernel{_in(column.unit)}.")
        columns.append(Column(metric, hidden=column.key not in first))
    columns.append(Column(EVENT, hidden=True))
    left = len(kernels) - len(rows)
    title = f"Single kernels, the {len(rows):,} longest of {len(kernels):,}" if left else "Single kernels"
    return Frame("kernel_rows", title, columns, pa.table(data), ("event",), "name", Sort("dur_ns", True))


def _in(unit: str) -> str:
    return f", in {unit}" if unit else ""


def _values(trace: TraceTable, column: OpenColumn, rows: Int64) -> tuple[pa.Array, Unit]:
    values, has = column.at(rows)
    if column.is_text:
        return trace.strings.take(np.where(has, values, MISSING)), "code"
    return pa.array(values, mask=~has), "number"
