"""Kernel time by name and launch configuration, and time of copies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Params, Part
from tb_plugin.analysis.demangle import readable_names
from tb_plugin.analysis.donuts import donut
from tb_plugin.analysis.graphs.attribution import is_eligible, operator_names
from tb_plugin.analysis.kernel_classes import class_slices, class_time, classify_kernels, title_of, word_of
from tb_plugin.analysis.matrix_unit import matrix_time, matrix_units, matrix_uses
from tb_plugin.analysis.metrics import CHOSEN, SHARED, define
from tb_plugin.analysis.phrases import capitalized
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.analysis.work.operator_work import OperatorWork, work_with_replays
from tb_plugin.analysis.work.rates import COLUMNS, HIDDEN, kernel_work, rates
from tb_plugin.analysis.work.rates import METRICS as OF_WORK
from tb_plugin.analysis.work_answers import kernels_answer
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Float64, Int64
from tb_plugin.lib.groupby import Groups, group, ratio
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.schema import MISSING, NO_OPERATOR, EventKind, KernelClass
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Breakdown, Column, Payload, Slice, Sort
from tb_plugin.sql.statements import with_sql
from tb_plugin.views.kernels import VIEW
from tb_plugin.views.kernels.reported_kernels import STATISTICS, core_times, frames_of, statistics

METRICS = SHARED.adding(
    OF_WORK,
    define("", "code", {"direction": ("Direction", "Recorded copy direction.")}),
    define(
        CHOSEN,
        "ratio",
        {"mean_occupancy": ("Occupancy", "Estimated occupancy, weighted by duration; unknown counts as 0.")},
    ),
    define(
        CHOSEN,
        "number",
        {
            "mean_blocks_per_sm": (
                "Blocks per SM",
                "Blocks per multiprocessor, weighted by duration; unknown counts as 0.",
            )
        },
    ),
    define(
        CHOSEN, "bool", {"uses_matrix_unit": ("Matrix units", "Use of matrix units, according to the kernel's name.")}
    ),
    define(CHOSEN, "bytes_per_second", {"bandwidth": ("Bandwidth", "Bytes divided by duration.")}),
)


# The coverage is always complete.
RATES = tuple(key for key in COLUMNS if key != "covered_ratio")
LAUNCH = ("grid", "block", "registers", "shared_memory")


class Kernels(DeclaredView, entry=VIEW):
    selects = "events"
    own = ("communication",)

    def part(self, trace: TraceTable, params: Params) -> Part:
        selection = select_rows(trace, *params.chosen)
        kernels = _counted(trace, selection.of(trace, EventKind.KERNEL), params)
        units = matrix_units(trace, kernels)
        times = class_time(trace, kernels)
        work = work_with_replays(trace, *selection.chosen)
        copies = selection.of(trace, EventKind.MEMCPY, EventKind.MEMSET)
        frames = {
            "kernels": _by_name(trace, kernels, units, work),
            "kernels_by_launch": _by_launch(trace, kernels, units, work),
            "copies": _copies(trace, copies),
            **frames_of(trace, kernels),
        }
        payloads: dict[str, Payload] = {
            **({"answer": found} if (found := kernels_answer(trace, kernels, times)) else {}),
            "classes": _classes(times),
            "kernels_total": donut(
                "kernels_total", "Kernel time", frames["kernels"], "total_ns", view="kernels", color="class"
            ),
        }
        if "kernels_by_type" in frames:
            payloads["types"] = donut(
                "types", "Types", frames["kernels_by_type"], "total_ns", view="kernels", group="kernels_by_type"
            )
        if by_core := core_times(trace, kernels, linked="kernels_by_type" in frames):
            payloads["cores"] = by_core
        if units:
            payloads["matrix_unit"] = _matrix_unit(trace, kernels, units)
        facts = {"kernels.calls": len(kernels), "kernels.names": frames["kernels"].data.num_rows}
        facts |= {f"kernels.{word_of(each)}_ns": ns for each, ns in times.items()}
        return Part(selection.coverage, facts, with_sql(frames, params), payloads, (*payloads, "kernels"))


def _counted(trace: TraceTable, kernels: Int64, params: Params) -> Int64:
    chosen = params.get("communication", "1")
    if chosen not in ("0", "1"):
        raise BadRequest("communication is 0 or 1.", "communication", f"Got {chosen[:40]!r}.")
    return kernels if chosen == "1" else kernels[~trace.is_collective[kernels]]


def _section(trace: TraceTable, column: str, missing: float = MISSING) -> npt.NDArray[np.generic]:
    values = getattr(trace.device_args, column)
    spread = np.full(len(trace), missing, values.dtype)
    spread[trace.device_args.row] = values
    return spread


def _weighted(groups: Groups, values: Float64, dur: Int64) -> pa.Array:
    if not (values >= 0).any():
        return pa.nulls(len(groups), pa.float64())
    weighted = groups.sum_real(np.where(np.isnan(values), 0.0, values) * dur)
    return pa.array(ratio(weighted, groups.sum(dur)))


def _rates(trace: TraceTable, kernels: Int64, groups: Groups, work: OperatorWork) -> dict[str, pa.Array]:
    """Returns the rates of rows whose launched kernels are each the only kernel of their operator call."""
    sums = kernel_work(trace, work, kernels, groups.of, len(groups))
    lone = work.kernel[(np.bincount(work.kernel_call) == 1)[work.kernel_call] & (work.count == 1)[work.kernel_call]]
    launched = np.bincount(groups.of[trace.launch[kernels] != MISSING], minlength=len(groups))
    is_lone = np.bincount(groups.of[np.isin(kernels, lone)], minlength=len(groups)) == launched
    return rates(sums.each(lambda values: np.where(is_lone, values, 0.0)))


def _columns(trace: TraceTable, kernels: Int64, groups: Groups, work: OperatorWork) -> dict[str, pa.Array]:
    dur, names = trace.dur_ns[kernels], trace.name[kernels][groups.first]
    blocks, occupancy = (
        np.asarray(_section(trace, key, np.nan)[kernels], np.float64) for key in ("blocks_per_sm", "occupancy")
    )
    classes = classify_kernels(trace)
    return {
        "name": trace.strings.take(names),
        **statistics(groups, dur),
        "mean_blocks_per_sm": _weighted(groups, blocks, dur),
        "mean_occupancy": _weighted(groups, occupancy, dur),
        "uses_matrix_unit": matrix_uses(groups, trace.uses_matrix_unit[kernels]),
        **_rates(trace, kernels, groups, work),
        "class": pa.array([word_of(each) for each in classes.of(names).tolist()], pa.string()),
        "class_title": pa.array([title_of(each) for each in classes.of(names).tolist()], pa.string()),
        "class_by": pa.array(classes.reasons(trace, names), pa.large_string()),
        "readable": pa.array(readable_names(trace.strings.take(names).to_pylist()), pa.large_string()),
    }


_EFFICIENCY = (*RATES, "mean_blocks_per_sm", "mean_occupancy", "uses_matrix_unit")


def _by_name(trace: TraceTable, kernels: Int64, units: str, work: OperatorWork) -> Frame:
    data = _columns(trace, kernels, group(trace.name[kernels]), work)
    keys = ["name", "class", *STATISTICS, *_EFFICIENCY, "class_title", "class_by", "readable"]
    return _frame("kernels", "Kernels", keys, pa.table(data), ("name",), units)


def _by_launch(trace: TraceTable, kernels: Int64, units: str, work: OperatorWork) -> Frame:
    operator = operator_names(trace, kernels)
    launch = {key: np.asarray(_section(trace, key)[kernels], np.int64) for key in LAUNCH}
    groups = group(trace.name[kernels], operator, *launch.values())
    first = groups.first
    data = _columns(trace, kernels, groups, work) | {
        "operator": pc.fill_null(trace.strings.take(operator[first]), NO_OPERATOR),
        "grid": trace.strings.take(launch["grid"][first]),
        "block": trace.strings.take(launch["block"][first]),
        "registers": _known(launch["registers"][first]),
        "shared_memory": _known(launch["shared_memory"][first]),
        "matrix_eligible": pa.array(groups.any(is_eligible(trace, kernels))),
    }
    keys = [
        "name",
        "class",
        "operator",
        *STATISTICS,
        *LAUNCH,
        *_EFFICIENCY,
        "matrix_eligible",
        "class_title",
        "class_by",
        "readable",
    ]
    row_key = ("name", "operator", *LAUNCH)
    return _frame("kernels_by_launch", "Kernels by launch", keys, pa.table(data), row_key, units)


def _known(values: Int64) -> pa.Array:
    return pa.array(values, mask=values == MISSING)


def _copies(trace: TraceTable, copies: Int64) -> Frame:
    direction = np.asarray(_section(trace, "direction")[copies], np.int64)
    stated = bool((direction != MISSING).any())
    groups = group(trace.name[copies], trace.kind[copies], direction)
    dur = trace.dur_ns[copies]
    size = np.asarray(_section(trace, "bytes")[copies], np.int64)
    known = size != MISSING
    total_bytes = groups.sum(np.where(known, size, 0))
    timed = groups.sum(np.where(known, dur, 0))
    bandwidth = ratio(total_bytes * 1e9, timed)
    data = {
        "name": trace.strings.take(trace.name[copies][groups.first]),
        "kind": pa.array([EventKind(int(k)).name.lower() for k in trace.kind[copies][groups.first]], pa.string()),
    }
    if stated:
        data["direction"] = pc.fill_null(trace.strings.take(direction[groups.first]), "")
    data |= statistics(groups, dur)
    data["bytes"] = pa.array(total_bytes, mask=~groups.any(known))
    data["bandwidth"] = pa.array(bandwidth, mask=timed == 0)
    return _frame(
        "copies",
        "Copies and memsets",
        ["name", *(["direction"] if stated else []), "kind", *STATISTICS, "bytes", "bandwidth"],
        pa.table(data),
        ("name", "kind", "direction") if stated else ("name", "kind"),
    )


def _frame(name: str, title: str, keys: list[str], table: pa.Table, row_key: tuple[str, ...], units: str = "") -> Frame:
    if not units:  # no device has any
        keys = [key for key in keys if key not in ("uses_matrix_unit", "matrix_eligible")]
    hidden: tuple[str, ...] = ("class_title", "class_by", "readable", "min_ns", "p50_ns", "matrix_eligible", *HIDDEN)
    present = [key for key in keys if key in row_key or not _always_null(table[key])]
    hidden += tuple(key for key in row_key if _always_null(table[key]))
    shown: list[Column] = METRICS.columns(
        *present, hidden=hidden, share=("total_ns",), titles={"uses_matrix_unit": capitalized(units)}
    )
    order = [("total_ns", "descending"), *((key, "ascending") for key in row_key)]
    return Frame(name, title, shown, sorted_by(table, order), row_key, "name", Sort("total_ns", True))


def _always_null(column: pa.ChunkedArray) -> bool:
    return len(column) > 0 and column.null_count == len(column)


def _classes(times: Mapping[KernelClass, int]) -> Breakdown:
    subtitle = METRICS.metric("class").definition
    slices = class_slices(times, METRICS.metric("total_ns"), view="kernels")
    return Breakdown("classes", "Classes", subtitle, "ns", sum(times.values()), slices, "donut")


def _matrix_unit(trace: TraceTable, kernels: Int64, units: str) -> Breakdown:
    time = matrix_time(trace, kernels)
    parts = [
        (f"Using {units}", "matrix", time.used_ns),
        (f"Not using {units}", "no_matrix", time.total_ns - time.used_ns - time.unknown_ns),
        ("Unknown", "rest", time.unknown_ns),
    ]
    slices = [
        Slice(METRICS.metric("total_ns", title), category, ns)
        for title, category, ns in parts
        if ns or category != "rest"
    ]
    subtitle = METRICS.metric("uses_matrix_unit").definition
    return Breakdown("matrix_unit", capitalized(units), subtitle, "ns", time.total_ns, slices, "donut")
