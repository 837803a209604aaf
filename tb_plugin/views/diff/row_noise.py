"""Intervals of the changes of table rows, from their times by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.analysis.annotations import launched_by
from tb_plugin.analysis.base import Frame, Part
from tb_plugin.analysis.forest import Spans, is_top_level, outermost_of
from tb_plugin.analysis.noise import MIN_STEPS, change_intervals, is_significant
from tb_plugin.analysis.operator_calls import operator_calls, reported_calls
from tb_plugin.analysis.selection import Selection, steps_of
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import Whole, group, places_of, sum_by
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import Steps, TraceTable
from tb_plugin.payloads import Column, Figure, Figures
from tb_plugin.views.diff.metrics import METRICS
from tb_plugin.views.diff.noise import noise_count
from tb_plugin.views.diff.paired_tables import ALL_MEASURES, PairedTable, Scaling, compared_measure, join

# Tables with known noise, and the tables of a part that contain their times by step.
SAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "operators": "operator_steps",
        "operators_by_shape": "operator_shape_steps",
        "kernels": "kernel_steps",
        "runtime_calls": "runtime_call_steps",
    }
)
# Limits memory and time: rows times steps of a table, rows with most time first.
MAX_CELLS = 2**18
# Rows whose changes are resampled at a time.
_ROWS_AT_ONCE = 500
WITHIN, SIGNIFICANT = "within noise", "significant"


def row_samples(trace: TraceTable, selection: Selection) -> dict[str, Frame]:
    """Returns the times of operators, kernels and runtime calls by step. With too few steps, the result is empty."""
    steps = steps_of(trace, selection.steps)
    if not trace.steps.recorded or len(steps.label) < MIN_STEPS:
        return {}
    return {frame.name: frame for frame in _frames(trace, selection, steps)}


def _frames(trace: TraceTable, selection: Selection, steps: Steps) -> Iterator[Frame]:
    kernels = selection.of(trace, EventKind.KERNEL)
    launch = launched_by(trace, kernels)
    is_launched = (trace.launch[kernels] != MISSING) & (launch != MISSING)
    step = np.where(is_launched, steps.at(trace.start_ns[launch], on_host=True), steps.at(trace.start_ns[kernels]))
    yield from _by_step(
        "kernels", trace, {"name": trace.name[kernels]}, step, {"total_ns": trace.dur_ns[kernels]}, steps
    )
    calls = selection.of(trace, EventKind.RUNTIME)
    names = trace.name[calls]
    once = is_top_level(names, Spans(trace.track[calls], trace.start_ns[calls], trace.ends(calls)))
    times = {"host_self_ns": trace.self_ns[calls], "host_total_ns": np.where(once, trace.dur_ns[calls], 0)}
    step = steps.at(trace.start_ns[calls], on_host=True)
    yield from _by_step("runtime_calls", trace, {"name": names}, step, times, steps)
    operators = operator_calls(trace, selection) if reported_calls(trace) is None else None
    if operators is None or operators.is_replayed.any():  # the steps of replayed calls are unknown
        return
    step = steps.at(operators.spans.start, on_host=True)
    keys: dict[str, Whole] = {"name": operators.name}
    for name, key in (("operators", "name"), ("operators_by_shape", "input_shape")):
        keys |= {key: operators.shape if key == "input_shape" else operators.name}
        once = outermost_of(_rows_of(keys), operators.spans, operators.parent)
        times = {
            "host_self_ns": operators.host_self_ns,
            "device_self_ns": operators.device_self_ns,
            "host_total_ns": np.where(once, operators.host_total_ns, 0),
            "device_total_ns": np.where(once, operators.device_total_ns, 0),
        }
        yield from _by_step(name, trace, keys, step, times, steps)


def _rows_of(keys: Mapping[str, Whole]) -> Int64:
    ids = [*keys.values()]
    return group(*ids).of if len(ids[0]) else np.empty(0, np.int64)


def _by_step(
    name: str, trace: TraceTable, keys: Mapping[str, Whole], step: Int64, times: Mapping[str, Int64], steps: Steps
) -> Iterator[Frame]:
    if not len(step):
        return
    groups, count = group(*keys.values()), len(steps.label)
    largest = np.argsort(-groups.sum(sum(times.values(), np.zeros(len(step), np.int64))), kind="stable")
    largest = largest[: MAX_CELLS // count]
    row = places_of(largest, len(groups)).astype(np.int64)[groups.of]
    cell = np.where((row == MISSING) | (step == MISSING), MISSING, row * count + step)
    sums = {key: sum_by(cell, values, len(largest) * count) for key, values in times.items()}
    first = groups.first[largest]
    texts = {key: pc.fill_null(trace.strings.take(ids[first]).cast(pa.string()), "") for key, ids in keys.items()}
    lists = {key: pa.FixedSizeListArray.from_arrays(pa.array(each), count) for key, each in sums.items()}
    columns = METRICS.columns(*texts, *lists)
    yield Frame(SAMPLES[name], SAMPLES[name], columns, pa.table({**texts, **lists}), tuple(keys), "name")


@cached_by_argument
def noisy_join(base: Part, table: PairedTable, exp: Part, measure: str, scaling: Scaling, *, by: str = "") -> Frame:
    """Returns ``join``, with the intervals of the changes as hidden columns if they are known."""
    frame = join(base, table, exp, measure, scaling, by=by)
    shown = compared_measure(base, table, exp, measure)
    sides = [part.frames.get(SAMPLES.get(table.name, "")) for part in (base, exp)]
    if (
        measure == ALL_MEASURES
        or any(side is None or shown not in side.data.column_names for side in sides)
        or not frame.data.num_rows
    ):
        return frame
    one, other = (_matrix(side, shown, frame.data) for side in sides if side is not None)
    counts = (one[0].shape[1], other[0].shape[1])
    scales = (counts[0] / scaling.base, counts[1] / scaling.exp)
    seeds = [np.asarray(part.frames["steps"].data["total_ns"])[None, :] for part in (base, exp)]
    low, high = _intervals((seeds[0], seeds[1]), (one[0], other[0]), scales)
    absent = [pc.equal(frame.data[f"{side}_ns"], 0).to_numpy() for side in ("base", "exp")]
    unknown = ~((one[1] | absent[0]) & (other[1] | absent[1]))
    verdict = np.where(is_significant(low, high), SIGNIFICANT, WITHIN)
    columns = {
        "interval_low_ns": pa.array(low, mask=unknown),
        "interval_high_ns": pa.array(high, mask=unknown),
        "noise": pa.array(verdict.tolist(), pa.string(), mask=unknown),
    }
    data = frame.data
    for key, values in columns.items():
        data = data.append_column(key, values)
    metrics = [Column(METRICS.metric(key), hidden=True) for key in columns]
    return replace(frame, data=data, columns=[*frame.columns, *metrics])


def _matrix(samples: Frame, measure: str, rows: pa.Table) -> tuple[Int64, Bool]:
    """Returns the times of these rows by step, and a mask of the rows with known times."""
    lists = samples.data[measure].combine_chunks()
    times = np.asarray(lists.flatten()).reshape(len(lists), lists.type.list_size)
    wanted, present = (
        pc.binary_join_element_wise(*(each[key].cast(pa.string()) for key in samples.row_key), "\0")
        for each in (rows, samples.data)
    )
    place = np.asarray(pc.fill_null(pc.index_in(wanted, present), MISSING))
    return np.vstack((times, np.zeros((1, times.shape[1]), np.int64)))[place], place != MISSING


def _intervals(
    seeds: tuple[Int64, Int64], rows: tuple[Int64, Int64], scales: tuple[float, float]
) -> tuple[Int64, Int64]:
    ends = []
    for start in range(0, len(rows[0]), _ROWS_AT_ONCE):
        base, exp = (
            np.vstack((seed, side[start : start + _ROWS_AT_ONCE])) for seed, side in zip(seeds, rows, strict=True)
        )
        ends.append(np.stack(change_intervals(base, exp, scales))[:, 1:])
    low, high = np.rint(np.concatenate(ends, axis=1)).astype(np.int64)
    return low, high


def noise_figures(frames: Sequence[Frame]) -> dict[str, Figures]:
    """Returns the number of changes within noise of each table with known noise."""
    figures: list[Figure] = []
    for frame in frames:
        if "noise" in frame.data.column_names:
            verdicts = pc.drop_null(frame.data["noise"])
            within = int(pc.sum(pc.equal(verdicts, WITHIN)).as_py() or 0)
            figures.append(METRICS.figure("noise", noise_count(within, len(verdicts)), frame.title))
    return {"noise": Figures("noise", "Noise", "", figures)} if figures else {}
