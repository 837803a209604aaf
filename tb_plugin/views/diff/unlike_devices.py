"""Tables that compare different kinds of devices.

The tables are used if the vendors of the two sides differ, or if a device is not a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.lib.groupby import shares
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.hardware import GPU
from tb_plugin.payloads import Column, Notice, Sort
from tb_plugin.views.diff.device_frames import COLLECTIVES, FAMILIES, MAKERS, PEAKS
from tb_plugin.views.diff.metrics import METRICS
from tb_plugin.views.diff.operator_paths import Paths, paths_of
from tb_plugin.views.diff.paired_tables import Scaling, both_sides, compared_ratio, comparison_columns, per_step
from tb_plugin.views.diff.waterfall import ON_DEVICE, StepTime

OVERALL, COMPUTING, COMMUNICATION, MEMORY = "overall", "computing", "communication", "memory"
KERNEL_TABLE = "kernels_by_operator"
TABLES = (OVERALL, COMPUTING, COMMUNICATION, MEMORY, KERNEL_TABLE)
ALIKE_FROM = 0.5
"""Minimum share of device time in operators with equal names and shapes. Below it, work is not comparable."""
_STATED = ("stated_wait_ns", "stated_transit_ns")


def compares_devices(base: Part, exp: Part) -> bool:
    """Returns whether the vendors of the two sides differ, or a device is not a GPU."""
    sides = [_makers(side) for side in (base, exp)]
    return all(sides) and (sides[0] != sides[1] or any(word != GPU for side in sides for _, word in side))


def have_other_makers(base: Part, exp: Part) -> bool:
    """Returns whether both sides have device work and different vendors."""
    one, other = ({maker for maker, _ in _makers(side)} for side in (base, exp))
    return bool(one and other) and not one & other


def _makers(side: Part) -> set[tuple[str, str]]:
    frame = side.frames.get(MAKERS)
    return set() if frame is None else {(row["maker"], row["device_word"]) for row in frame.data.to_pylist()}


# Maps rows of the table to parts of the step.
_TABLE_PARTS = {
    "Computing": ON_DEVICE[:1],
    "Exposed communication": ON_DEVICE[-1:],
    "Exposed copies and memsets": ON_DEVICE[1:3],
    "Unrecorded work": ON_DEVICE[3:4],
}


def step_parts(base: StepTime, exp: StepTime) -> Frame:
    """Returns the parts of the step on both sides. The last row is the exact sum of all parts: the whole step."""
    times = []
    shown = {
        title: of
        for title, of in _TABLE_PARTS.items()
        if of != ON_DEVICE[3:4] or any(side.parts[key] for side in (base, exp) for key in of)
    }
    for side in (base, exp):
        parts = [sum(side.parts[key] for key in of) for of in shown.values()]
        times.append(np.array([*parts, side.total_ns - sum(parts), side.total_ns], np.int64))
    one, other = times
    data = {
        "overall_part": pa.array([*shown, "Free", "Whole step"], pa.string()),
        "base_ns": pa.array(one),
        "base_share": pa.array(one / max(base.total_ns, 1)),
        "exp_ns": pa.array(other),
        "exp_share": pa.array(other / max(exp.total_ns, 1)),
        "delta_ns": pa.array(other - one),
        "compared_ratio": compared_ratio(pa.array(one), pa.array(other)),
    }
    return Frame(OVERALL, "Overall", _columns(data, None), pa.table(data), ("overall_part",), "overall_part")


@cached_by_argument
def device_tables(base: Part, exp: Part, scaling: Scaling, slower: bool) -> dict[str, Frame]:
    """Returns the tables that compare device work, keyed by name.

    Empty tables and the table ``overall`` are omitted.
    """
    frames = [_computing(base, exp, scaling, slower), _communication(base, exp, scaling, slower), _memory(base, exp)]
    frames.append(_kernels(paths_of(base), paths_of(exp), scaling))
    return {frame.name: frame for frame in frames if frame.data.num_rows}


def _columns(data: dict[str, pa.Array], scaling: Scaling | None, *hidden: str) -> list[Column]:
    window = scaling.window if scaling else ""
    return [
        Column(METRICS.metric(key, window=window if METRICS[key].window else ""), hidden=key in hidden) for key in data
    ]


def _changed_most(
    name: str, title: str, data: dict[str, pa.Array], scaling: Scaling, slower: bool, *keys: str
) -> Frame:
    known = {
        key: values
        for key, values in data.items()
        if key == "compared_ratio" or values.null_count < len(values) or not len(values)
    }
    order = [("delta_ns", "descending" if slower else "ascending"), *((key, "ascending") for key in keys)]
    table = pa.table(known).sort_by(order)
    hidden = ("delta_kernels", "delta_calls", "base_matrix_ns", "exp_matrix_ns")
    return Frame(name, title, _columns(known, scaling, *hidden), table, keys, keys[0], Sort("delta_ns", slower))


def _computing(base: Part, exp: Part, scaling: Scaling, slower: bool) -> Frame:
    keys = ("family", "pass_direction")
    values = ("calls", "total_ns", "matrix_ns")
    both = both_sides(base.frames.get(FAMILIES), exp.frames.get(FAMILIES), keys, values)
    times = comparison_columns(both, "total_ns", scaling, "ns")
    data = {key: both[key] for key in keys} | comparison_columns(both, "calls", scaling, "kernels")
    for side in ("base", "exp"):
        data |= {f"{side}_ns": times[f"{side}_ns"], f"{side}_share": _shares(both[f"{side}_total_ns"])}
    data |= {"delta_ns": times["delta_ns"], "compared_ratio": compared_ratio(times["base_ns"], times["exp_ns"])}
    on_matrix = comparison_columns(both, "matrix_ns", scaling, "matrix_ns")
    data |= {key: on_matrix[key] for key in ("base_matrix_ns", "exp_matrix_ns")}
    return _changed_most(COMPUTING, "Computing by family", data, scaling, slower, *keys)


def _shares(values: pa.ChunkedArray) -> pa.Array:
    return pa.array(shares(values.to_numpy()))


def _communication(base: Part, exp: Part, scaling: Scaling, slower: bool) -> Frame:
    both = both_sides(
        base.frames.get(COLLECTIVES),
        exp.frames.get(COLLECTIVES),
        ("collective",),
        ("calls", "total_ns", "max_ns", *_STATED),
    )
    times = comparison_columns(both, "total_ns", scaling, "ns")
    data = {"collective": both["collective"]} | comparison_columns(both, "calls", scaling, "calls") | times
    data |= {"compared_ratio": compared_ratio(times["base_ns"], times["exp_ns"])}
    data |= {f"{side}_longest_ns": both[f"{side}_max_ns"] for side in ("base", "exp")}
    for side, part, count in (("base", base, scaling.base), ("exp", exp, scaling.exp)):
        for key in _STATED:
            stated = part.frames[COLLECTIVES].data
            known = pc.is_in(both["collective"], stated.filter(pc.is_valid(stated[key]))["collective"].combine_chunks())
            data[f"{side}_{key.removeprefix('stated_')}"] = pc.if_else(
                known, per_step(both[f"{side}_{key}"], count), None
            )
    return _changed_most(COMMUNICATION, "Communication by operation", data, scaling, slower, "collective")


def _memory(base: Part, exp: Part) -> Frame:
    both = both_sides(base.frames.get(PEAKS), exp.frames.get(PEAKS), ("compared_memory",), ("bytes",))
    both = both.filter(pc.equal(both["presence"], "both")).sort_by("compared_memory")
    data = {
        "compared_memory": both["compared_memory"],
        "base_bytes": both["base_bytes"],
        "exp_bytes": both["exp_bytes"],
        "delta_bytes": pc.subtract(both["exp_bytes"], both["base_bytes"]),
        "compared_ratio": compared_ratio(both["base_bytes"], both["exp_bytes"]),
    }
    return Frame(MEMORY, "Memory", _columns(data, None), pa.table(data), ("compared_memory",), "compared_memory")


def _kernels(base: Paths, exp: Paths, scaling: Scaling) -> Frame:
    """Returns the kernels of each operator.

    The first row of an operator has the longest kernel of each side, and the next row has the second longest.
    """
    left = _placed(base.operators(exp), base.work, "base", scaling.base)
    right = _placed(exp.operators(base), exp.work, "exp", scaling.exp)
    keys = ["beside_operator", "beside_place"]
    data = left.join(right, keys, join_type="full outer")
    numbers = [f"{side}_{what}" for side in ("base", "exp") for what in ("kernels", "ns")]
    filled = {key: pc.fill_null(data[key], 0) for key in numbers}
    time = pc.add(filled["base_ns"], filled["exp_ns"])
    whole = (
        pa.table({"beside_operator": data["beside_operator"], "time": time})
        .group_by("beside_operator")
        .aggregate([("time", "sum")])
    )
    data = pa.table({**{key: data[key] for key in (*keys, "base_kernel", "exp_kernel")}, **filled})
    data = data.join(whole, "beside_operator").sort_by(
        [("time_sum", "descending"), *((key, "ascending") for key in keys)]
    )
    shown = (
        "beside_operator",
        "beside_place",
        "base_kernel",
        "base_kernels",
        "base_ns",
        "exp_kernel",
        "exp_kernels",
        "exp_ns",
    )
    table = data.select(shown).combine_chunks()
    columns = _columns({key: table[key] for key in shown}, scaling, "beside_place")
    return Frame(
        KERNEL_TABLE, "Kernels by operator", columns, table, ("beside_operator", "beside_place"), "beside_operator"
    )


def _placed(operators: Sequence[str], work: pa.Table, side: str, count: int) -> pa.Table:
    """Returns kernels by operator and name with times per step, ranked by time within each operator."""
    data = pa.table({"name": pa.array(operators, pa.string()), "kernel": work["name"].cast(pa.string())})
    data = data.append_column("calls", work["calls"]).append_column("ns", work["total_ns"])
    data = data.group_by(["name", "kernel"], use_threads=False).aggregate([("calls", "sum"), ("ns", "sum")])
    data = data.sort_by([("name", "ascending"), ("ns_sum", "descending"), ("kernel", "ascending")])
    coded = data["name"].combine_chunks().dictionary_encode().indices.to_numpy()
    begins = np.flatnonzero(np.append(True, coded[1:] != coded[:-1])[: len(coded)])
    place = np.arange(len(coded)) - np.repeat(begins, np.diff(np.append(begins, len(coded))))
    return pa.table(
        {
            "beside_operator": data["name"],
            "beside_place": pa.array(place),
            f"{side}_kernel": data["kernel"],
            f"{side}_kernels": per_step(data["calls_sum"], count),
            f"{side}_ns": per_step(data["ns_sum"], count),
        }
    )


def device_notices(base: Part, exp: Part) -> list[Notice]:
    """Returns findings that explain how comparable the device work of both sides is."""
    notices, ours, theirs = [], paths_of(base), paths_of(exp)
    if not ours.total_ns or not theirs.total_ns:
        return []
    if have_other_makers(base, exp):
        text = (
            "The devices come from different vendors, so kernels are matched by operator. Operators that "
            "both profiles contain cover {base_matched_ratio} of the baseline's device time and "
            "{exp_matched_ratio} of the experiment's device time."
        )
        ratios = {"base_matched_ratio": ours.ratio(theirs), "exp_matched_ratio": theirs.ratio(ours)}
        figures = [METRICS.figure(key, value) for key, value in ratios.items()]
        notices.append(Notice("other_makers", "info", text, "", figures))
    if any(ours.shape) and any(theirs.shape):
        alike = {"base_alike_ratio": ours.ratio(theirs, True), "exp_alike_ratio": theirs.ratio(ours, True)}
        if min(alike.values()) < ALIKE_FROM:
            text = (
                "The profiles do different work. Operators with equal input shapes cover {base_alike_ratio} of "
                "the baseline's device time and {exp_alike_ratio} of the experiment's device time. Do not "
                "compare the devices by these times."
            )
            todo = "Compare profiles of the same model and batch size."
            figures = [METRICS.figure(key, value) for key, value in alike.items()]
            notices.append(Notice("unlike_work", "medium", text, todo, figures))
    return notices
