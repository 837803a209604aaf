"""Phases by step: table and bars."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.phase_calls import PhaseCalls
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group
from tb_plugin.lib.intervals import measure_by
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Line, Metric, Series
from tb_plugin.views.phases.metrics import METRICS

# Maximum bars per phase; more steps share bars.
BARS = 60


class ByStep(msgspec.Struct, frozen=True, eq=False):
    """Time of each phase in each step: one row per phase and step. A phase without time in a step has no row."""

    labels: list[str]
    phase: Int64
    step: Int64
    times: dict[str, Int64]


def by_step(trace: TraceTable, found: PhaseCalls, steps: list[int]) -> ByStep:
    """Returns the time of each phase in each step. ``steps`` has step indices."""
    start, end = trace.steps.host_start_ns[steps], trace.steps.host_end_ns[steps]
    calls, work = found.calls, found.device
    # A call may span several steps: one entry per step, clipped to its bounds.
    first = np.searchsorted(end, calls.start, side="right")
    count = np.maximum(np.searchsorted(start, calls.end, side="left") - first, 0)
    call = np.repeat(np.arange(len(count)), count)
    step = np.arange(len(call)) - np.repeat(np.cumsum(count) - count, count) + first[call]
    at = work.at[work.item]
    launched = np.searchsorted(start, at, side="right") - 1
    known = (launched >= 0) & (at < np.append(end, MISSING)[launched])
    phase = np.concatenate((found.of[call], found.of[work.call[known]]))
    where = np.concatenate((step, launched[known]))
    cells = group(phase, where)
    opened, worked = cells.of[: len(call)], cells.of[len(call) :]
    begins, ends = np.maximum(calls.start[call], start[step]), np.minimum(calls.end[call], end[step])
    inside = replace(work, call=work.call[known], item=work.item[known])
    times = {"phase_host_in_step_ns": measure_by(opened, begins, ends, len(cells))}
    if len(found.busy):
        times["phase_device_in_step_ns"] = inside.union_by(worked, len(cells))
    return ByStep([trace.steps.label[i] for i in steps], phase[cells.first], where[cells.first], times)


def steps_table(found: PhaseCalls, steps: ByStep) -> Frame:
    data = {
        "phase": pa.array(found.phases.labels, pa.string()).take(pa.array(steps.phase)),
        "step": pa.array(steps.labels, pa.string()).take(pa.array(steps.step)),
        **{key: pa.array(values) for key, values in steps.times.items()},
    }
    return Frame(
        name="phase_steps",
        title="Phases by step",
        columns=METRICS.columns(*data),
        data=pa.table(data).take(np.lexsort((steps.step, steps.phase))),
        row_key=("phase", "step"),
        name_column="phase",
    )


def phase_bars(found: PhaseCalls, steps: ByStep, shown: list[str], key: str) -> Series:
    """Returns the bars of the phases in ``shown``. With more than ``BARS`` steps, a bar is a mean of steps."""
    labels, width = steps.labels, max(1, -(-len(steps.labels) // BARS))
    begins = np.arange(0, len(labels), width)
    place = {label: i for i, label in enumerate(shown)}
    row = np.array([place.get(label, MISSING) for label in found.phases.labels], np.int64)[steps.phase]
    total = np.zeros((len(shown), len(begins)), np.int64)
    in_step = row != MISSING
    np.add.at(total, (row[in_step], steps.step[in_step] // width), steps.times[key][in_step])
    mean = total / np.diff(np.append(begins, len(labels)))
    ends = np.append(begins, len(labels))[1:] - 1
    x = [labels[a] if a == b else f"{labels[a]} to {labels[b]}" for a, b in zip(begins, ends, strict=True)]
    metric = METRICS[key]
    lines = [
        Line(Metric(label, label, metric.unit, metric.definition, metric.window), "phase", values)
        for label, values in zip(shown, mean.tolist(), strict=True)
    ]
    return Series(key.removesuffix("_ns"), metric.title, "", METRICS.metric("step"), list(x), lines, "stacked_bars")
