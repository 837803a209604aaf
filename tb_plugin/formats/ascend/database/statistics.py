"""Statistics of kernels and calls, computed from database rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.database.typed_table import TypedTable
from tb_plugin.formats.ascend.kernel_details import CORE, DEVICE, TYPE, Kernels
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.extra_columns import OpenColumn
from tb_plugin.model.trace.schema import MISSING

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

LEVEL = "level"  # argument of CANN calls: the called layer
_HOST = "host"


def worked_out(
    columns: Mapping[str, Any], kernels: Kernels | None, interner: Interner, texts: frozenset[str], log: IssueLog
) -> dict[str, TypedTable]:
    """Returns statistics of kernels and calls by file name. Omits those that the text files ``texts`` contain."""
    found = {}
    if kernels is not None and files.KERNEL_STATISTICS not in texts:
        found[files.KERNEL_STATISTICS] = _kernel_statistics(kernels, interner, log)
    levels = [fact for fact in columns["others"] if fact.key == LEVEL and fact.is_text]
    if levels and files.CALL_STATISTICS not in texts:
        found[files.CALL_STATISTICS] = _call_statistics(columns, levels[0], interner, log)
    return {file: table for file, table in found.items() if table.rows}


def _kernel_statistics(kernels: Kernels, interner: Interner, log: IssueLog) -> TypedTable:
    kind, core = (_by_row(kernels.facts, title, len(kernels)) for title in (TYPE, CORE))
    row = np.flatnonzero(~kernels.is_collective & (kind != MISSING))
    grouped = _grouped(
        [kernels.device[row].astype(np.int64), kind[row], core[row]], kernels.dur_ns[row], interner, (1, 2)
    )
    total = grouped["total_ns"]
    columns = {
        DEVICE: grouped["key_0"], "OP Type": grouped["key_1"], "Core Type": grouped["key_2"], "Count": grouped["count"],
        "Total Time(us)": _us(total), "Min Time(us)": _us(grouped["min_ns"]), "Avg Time(us)": _us(grouped["mean_ns"]),
        "Max Time(us)": _us(grouped["max_ns"]),
        "Ratio(%)": pc.divide(pc.multiply(total, 100.0), max(1.0, pc.sum(total).as_py() or 0.0)),
    }  # fmt: skip
    return TypedTable(columns, {}, log)


def _call_statistics(columns: Mapping[str, Any], level: OpenColumn, interner: Interner, log: IssueLog) -> TypedTable:
    row = level.row
    grouped = _grouped([level.value, columns["name"][row]], columns["dur_ns"][row], interner, (0, 1))
    name = pc.replace_substring_regex(grouped["key_1"], r"\A\w+@", "")
    made = {
        DEVICE: pa.array([_HOST] * len(name)), "Level": grouped["key_0"], "API Name": name,
        "Time(us)": _us(grouped["total_ns"]), "Count": grouped["count"], "Avg(us)": _us(grouped["mean_ns"]),
        "Min(us)": _us(grouped["min_ns"]), "Max(us)": _us(grouped["max_ns"]),
        "Variance": pc.divide(grouped["variance"], 1e6),
    }  # fmt: skip
    return TypedTable(made, {}, log)


def _grouped(
    keys: Sequence[Int64 | Int32], dur_ns: Int64, interner: Interner, words: Sequence[int]
) -> dict[str, pa.Array]:
    """Returns durations by key, sorted by their sum, largest first.

    ``words`` are the indices of the keys that are string ids; these keys become texts.
    """
    names = [f"key_{place}" for place in range(len(keys))]
    # Sums of invalid times exceed 64 bits, so floats are used. Other sums are exact.
    table = pa.table([*(pa.array(key) for key in keys), pa.array(dur_ns.astype(np.float64))], [*names, "ns"])
    aggregations = [("ns", how) for how in ("count", "sum", "min", "max", "mean", "variance")]
    made = table.group_by(names).aggregate(aggregations).combine_chunks()
    columns = {name: made[name].combine_chunks() for name in names}
    for place in words:
        ids = columns[names[place]].to_pylist()
        columns[names[place]] = pa.array(
            [None if each == MISSING else interner.texts[each] for each in ids], pa.string()
        )
    columns |= {
        "count": made["ns_count"],
        "total_ns": made["ns_sum"],
        "min_ns": made["ns_min"],
        "max_ns": made["ns_max"],
    }
    columns |= {"mean_ns": made["ns_mean"], "variance": made["ns_variance"]}
    whole = pa.table(columns).combine_chunks()
    order = pc.sort_indices(whole, [("total_ns", "descending"), *((name, "ascending") for name in names)])
    whole = whole.take(order).combine_chunks()
    return {
        name: pa.concat_arrays(whole[name].chunks) if whole.num_rows else pa.nulls(0) for name in whole.column_names
    }


def _by_row(facts: Sequence[OpenColumn], key: str, count: int) -> Int32:
    found = np.full(count, MISSING, np.int32)
    for fact in facts:
        if fact.key == key and fact.is_text:
            found[fact.row] = fact.value
    return found


def _us(ns: pa.Array) -> pa.Array:
    return pc.divide(ns, 1000.0)
