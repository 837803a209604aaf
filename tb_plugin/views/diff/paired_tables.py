"""Tables of two profiles, joined by row name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.analysis.range_names import ranges_by_name
from tb_plugin.analysis.range_traces import is_range_trace
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column, Metric, Sort
from tb_plugin.views.diff.metrics import METRICS

BOTH, NEW, GONE = "both", "new", "gone"
MEASURES = ("device_self_ns", "device_total_ns", "host_self_ns", "host_total_ns")
ALL_MEASURES = "all"
PER_STEP, TOTAL = "step", "total"
# Shown in place of the key of the class.
_CLASS_TITLE = "class_title"


class PairedTable(msgspec.Struct, frozen=True):
    """Key columns and measures of a table of another view. If the table lacks the requested measure, the last one is used."""

    name: str
    title: str
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    own_ns: str = ""
    total_ns: str = ""
    """Columns of self time and total time, if their names differ from the measure."""
    labels: tuple[str, ...] = ()
    """Text columns that describe a row. They are no keys: the sides may differ, and the experiment's text is shown."""
    source: str = ""
    """Name of the other view's table, if it differs from ``name``."""

    def frame(self, side: Part) -> Frame | None:
        return side.frames.get(self.source or self.name)


TABLES = (
    PairedTable("operators", "Operators", ("name",), MEASURES),
    PairedTable("operators_by_shape", "Operators by input shapes", ("name", "input_shape"), MEASURES),
    PairedTable("kernels", "Kernels", ("name",), ("total_ns",), labels=("class", _CLASS_TITLE)),
    PairedTable(
        "modules",
        "Modules",
        ("module",),
        ("device_self_ns", "device_total_ns", "backward_device_total_ns", "host_self_ns", "host_total_ns"),
    ),
    PairedTable("runtime_calls", "Runtime calls", ("name",), ("host_self_ns", "host_total_ns")),
)
# Tables of profiles that report kernel types.
BY_TYPE = (
    PairedTable("kernels_by_type", "Kernels by type", ("kernel_type", "core"), ("total_ns",)),
    PairedTable("kernels_by_type_shape", "Kernels by type and shapes", ("kernel_type", "kernel_shapes"), ("total_ns",)),
)
# For devices of different vendors, whose kernels have different names.
BY_CLASS = PairedTable("kernels_by_class", "Kernels by class", ("class",), ("total_ns",), source="kernels")
# For traces that contain only ranges.
RANGES = PairedTable(
    "ranges", "Ranges", ("name",), ("range_total_ns", "range_own_ns"), own_ns="range_own_ns", total_ns="range_total_ns"
)


class Scaling(msgspec.Struct, frozen=True):
    """Divisors of both sides: the numbers of selected steps, or 1 for total times."""

    per: str
    base: int
    exp: int

    @property
    def window(self) -> str:
        return (
            "mean of the selected steps" if self.per == PER_STEP else "sum of the selected steps, else the full trace"
        )


@cached_by_argument
def join(base: Part, table: PairedTable, exp: Part, measure: str, scaling: Scaling, *, by: str = "") -> Frame:
    """Joins the tables of both sides, largest increase first."""
    frames = [frame for side in (base, exp) if (frame := table.frame(side))]
    measures = _measures(table, frames, measure)
    labels = [each for each in table.labels if any(each in frame.data.column_names for frame in frames)]
    data = _both_sides(table.frame(base), table.frame(exp), table.keys, labels, ["calls", *measures])
    shown: dict[str, pa.ChunkedArray] = {key: data[key] for key in (*table.keys, *labels, "presence")}
    for value in ("calls", *measures):
        name = value if measure == ALL_MEASURES or value == "calls" else "ns"
        shown |= _comparison_columns(data, value, scaling, name)
    first = "ns"
    if measure == ALL_MEASURES:
        first = _measures(table, frames, by)[0] if by else measures[0]
    else:
        shown["time_ratio"] = _ratio(shown["base_ns"], shown["exp_ns"])
    order = [(f"delta_{first}", "descending"), *((key, "ascending") for key in table.keys)]
    # The table's own view defines its key columns.
    lent = [column for frame in frames for column in frame.columns]
    of_keys = {column.metric.key: Column(column.metric) for column in lent if column.metric.key not in METRICS}
    of_keys[_CLASS_TITLE] = Column(METRICS.metric(_CLASS_TITLE), hidden=True)
    return Frame(
        name=table.name,
        title=table.title,
        columns=[of_keys.get(key) or _column(key, measures[0], scaling, measure) for key in shown],
        data=sorted_by(pa.table(shown), order),
        row_key=table.keys,
        name_column=table.keys[0],
        sort=Sort(f"delta_{first}", True),
    )


def compared_measure(base: Part, table: PairedTable, exp: Part, measure: str) -> str:
    """Returns the time column of the table that is compared, or the first of all."""
    return _measures(table, [frame for side in (base, exp) if (frame := table.frame(side))], measure)[0]


def _both_sides(
    base: Frame | None, exp: Frame | None, keys: tuple[str, ...], labels: Sequence[str], values: Sequence[str]
) -> pa.Table:
    left, right = _side(base, keys, labels, values, "base"), _side(exp, keys, labels, values, "exp")
    data = left.join(right, list(keys), join_type="full outer").combine_chunks()
    in_base, in_exp = (pc.is_valid(data[f"{side}_{values[0]}"]) for side in ("base", "exp"))
    presence = pc.if_else(pc.and_(in_base, in_exp), BOTH, pc.if_else(in_exp, NEW, GONE))
    numbers = {
        f"{side}_{value}": pc.fill_null(data[f"{side}_{value}"], 0) for value in values for side in ("base", "exp")
    }
    texts = {each: pc.coalesce(data[f"exp_{each}"], data[f"base_{each}"]) for each in labels}
    return pa.table({**{key: data[key] for key in keys}, **texts, "presence": presence, **numbers})


def _comparison_columns(data: pa.Table, value: str, scaling: Scaling, name: str) -> dict[str, pa.ChunkedArray]:
    one, other = data[f"base_{value}"], data[f"exp_{value}"]
    return {
        f"base_{name}": _per_step(one, scaling.base),
        f"exp_{name}": _per_step(other, scaling.exp),
        f"delta_{name}": _change(one, other, scaling),
    }


def _ratio(base: pa.ChunkedArray, exp: pa.ChunkedArray) -> pa.ChunkedArray:
    whole = base.cast(pa.float64(), safe=False)
    return pc.divide(exp.cast(pa.float64(), safe=False), pc.if_else(pc.equal(whole, 0), None, whole))


def comparison_metrics(measure: str, scaling: Scaling) -> Mapping[str, Metric]:
    """Returns the metrics of the comparison columns of ``measure``, which is a key of METRICS."""
    of = METRICS[measure]
    keys = ("base_ns", "exp_ns", "delta_ns", "time_ratio")
    return {
        key: Metric(
            key, METRICS[key].title, METRICS[key].unit, f"{METRICS[key].definition} {of.definition}", scaling.window
        )
        for key in keys
    }


def _measures(table: PairedTable, frames: Sequence[Frame], wanted: str) -> list[str]:
    present = [m for m in table.measures if not frames or any(m in frame.data.column_names for frame in frames)]
    if wanted == ALL_MEASURES:
        return present
    wanted = (table.total_ns if wanted.endswith("total_ns") else table.own_ns) or wanted
    return [wanted] if wanted in present else present[-1:]


def _side(
    frame: Frame | None, keys: tuple[str, ...], labels: Sequence[str], values: Sequence[str], side: str
) -> pa.Table:
    schema = pa.schema([(key, pa.string()) for key in (*keys, *labels)] + [(value, pa.int64()) for value in values])
    if frame is None:
        data = schema.empty_table()
    else:
        present = {value: frame.data[value] for value in values if value in frame.data.column_names}
        if "replayed_calls" in frame.data.column_names and "calls" in present:
            present["calls"] = pc.add(present["calls"], pc.fill_null(frame.data["replayed_calls"], 0))
        absent = {value: pa.nulls(frame.data.num_rows, pa.int64()) for value in values if value not in present}
        texts = {key: pc.fill_null(frame.data[key].cast(pa.string()), "") for key in keys}
        missing = pa.nulls(frame.data.num_rows, pa.string())
        texts |= {each: frame.data[each] if each in frame.data.column_names else missing for each in labels}
        data = pa.table({**texts, **present, **absent}).select(schema.names).cast(schema)
    # Keys are not null here, because nulls never join. Rows with equal keys (module instances) are summed.
    wanted = [*((value, "sum") for value in values), *((label, "first") for label in labels)]
    data = data.group_by(list(keys), use_threads=False).aggregate(wanted)
    numbers = {f"{side}_{value}": pc.fill_null(data[f"{value}_sum"], 0) for value in values}
    texts = {f"{side}_{label}": data[f"{label}_first"] for label in labels}
    return pa.table({**{key: data[key] for key in keys}, **texts, **numbers})


def _per_step(sums: pa.ChunkedArray, count: int) -> pa.ChunkedArray:
    return sums if count == 1 else pc.divide(sums.cast(pa.float64()), float(count))


def _change(base: pa.ChunkedArray, exp: pa.ChunkedArray, scaling: Scaling) -> pa.ChunkedArray:
    """Returns experiment minus baseline. With equal step counts, sums are subtracted first, to be exact."""
    if scaling.base == scaling.exp:
        return _per_step(pc.subtract(exp, base), scaling.exp)
    return pc.subtract(_per_step(exp, scaling.exp), _per_step(base, scaling.base))


def _column(key: str, shown: str, scaling: Scaling, measure: str) -> Column:
    side, _, value = key.partition("_")
    is_count = value == "calls"
    if measure != ALL_MEASURES:
        of = comparison_metrics(shown, scaling)
        plain = of[key] if key in of else METRICS.metric(key, window=scaling.window if is_count else "")
        return Column(plain, hidden=is_count and side == "delta")
    if side in ("base", "exp", "delta") and not is_count:
        plain = comparison_metrics(value, scaling)[f"{side}_ns"]
        return Column(Metric(key, f"{plain.title}: {METRICS[value].title}", "ns", plain.definition, plain.window))
    return Column(METRICS.metric(key))


def range_frames(trace: TraceTable) -> dict[str, Frame]:
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


MODES = "serving_modes"
_MODE_VALUES = ("mode_steps", "mode_mean_ns", "mode_p95_ns", "mode_tokens_per_second")


def modes_frame(base: Part, exp: Part) -> dict[str, Frame]:
    """Returns one row per mode of either side. Without modes, the result is empty."""
    sides = {side: part.frames[MODES] for side, part in (("base", base), ("exp", exp)) if MODES in part.frames}
    if not sides:
        return {}
    rows = {side: {row["mode"]: row for row in frame.data.to_pylist()} for side, frame in sides.items()}
    names = sorted({name for of in rows.values() for name in of})
    data: dict[str, list[Any]] = {"mode": names}
    for value in _MODE_VALUES:
        for side in ("base", "exp"):
            data[f"{side}_{value}"] = [rows.get(side, {}).get(name, {}).get(value) for name in names]
    pairs = list(zip(data["base_mode_mean_ns"], data["exp_mode_mean_ns"], strict=True))
    data["delta_mode_mean_ns"] = [None if None in pair else pair[1] - pair[0] for pair in pairs]
    data["mode_time_ratio"] = [pair[1] / pair[0] if None not in pair and pair[0] else None for pair in pairs]
    types = {
        key: pa.string() if key == "mode" else pa.int64() if key.endswith("_steps") else pa.float64() for key in data
    }
    lent = next(column for frame in sides.values() for column in frame.columns if column.metric.key == "mode")
    return {
        MODES: Frame(
            name=MODES,
            title="Modes",
            columns=[Column(lent.metric), *METRICS.columns(*(key for key in data if key != "mode"))],
            data=pa.table({key: pa.array(values, types[key]) for key, values in data.items()}),
            row_key=("mode",),
            name_column="mode",
        )
    }
