"""Rows of the trace view, merged with kernels from tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import asdict, replace

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend.kernel_details import Kernels, places_among
from tb_plugin.formats.ascend.timeline import device_args
from tb_plugin.model.trace.extra_columns import OpenColumn
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import AsyncRows, DeviceArgs

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

_GROUPS = "Communication"


def no_rows_at_all() -> dict[str, Any]:
    """Returns empty columns, for a profile without a trace view."""
    none, ids = np.empty(0, np.int64), np.empty(0, np.int32)
    return {
        "start_ns": none, "dur_ns": none, "name": ids, "category": ids, "kind": np.empty(0, np.uint8), "pid": ids, "tid": ids,
        "nth": none, "correlation": none, "external_id": none, "device": ids, "asynchronous": AsyncRows(),
        "device_args": DeviceArgs(), "others": (),
    }  # fmt: skip


def with_kernels(
    columns: dict[str, Any], kernels: Kernels, interner: Interner, row: Int32 | None = None
) -> tuple[dict[str, Any], Int32]:
    """Adds the table's data about kernels to the columns. Returns the columns, and the row of each kernel.

    Kernels that are missing from the trace view become new rows on their stream. ``row``: row of each kernel, if
    known; otherwise kernels are matched by name and start.
    """
    if row is None:
        drawn = np.flatnonzero(columns["kind"] == EventKind.KERNEL)
        row = places_among(kernels, columns["name"], columns["start_ns"], drawn)
    known = np.flatnonzero(row != MISSING)
    unplaced = np.flatnonzero(row == MISSING)
    made = dict(columns)
    made["dur_ns"] = made["dur_ns"].copy()
    made["dur_ns"][row[known]] = kernels.dur_ns[known]
    count = len(made["start_ns"])
    row[unplaced] = count + np.arange(len(unplaced), dtype=np.int32)
    if len(unplaced):
        made = _appended(made, kernels, unplaced, row[unplaced], interner)
    made["others"] = _merged_facts(made["others"], kernels.facts, row)
    return made, row


def _appended(made: dict[str, Any], kernels: Kernels, chosen: Int64, row: Int32, interner: Interner) -> dict[str, Any]:
    ids, count = interner.text, len(chosen)
    on_stream = kernels.stream[chosen] != MISSING
    device = np.maximum(kernels.device[chosen], 0)
    number = np.array([ids(str(each)) for each in range(int(device.max()) + 1)], np.int32)
    none = np.full(count, MISSING, np.int64)
    rows: dict[str, Any] = {
        "start_ns": kernels.start_ns[chosen],
        "dur_ns": kernels.dur_ns[chosen],
        "name": kernels.name[chosen],
        "category": np.full(count, ids(""), np.int32),
        "kind": np.full(count, EventKind.KERNEL, np.uint8),
        "pid": number[device],
        "tid": np.where(on_stream, kernels.stream[chosen], ids(_GROUPS)).astype(np.int32),
        "nth": none,
        "correlation": none,
        "external_id": none,
        "device": device,
    }
    made = {key: np.concatenate((made[key], rows[key])) if key in rows else made[key] for key in made}
    before = made["device_args"]
    more = device_args(row, kernels.stream[chosen], none, none.astype(np.int32))
    made["device_args"] = replace(
        before, **{key: np.concatenate((column, getattr(more, key))) for key, column in asdict(before).items()}
    )
    return made


def _merged_facts(others: tuple[OpenColumn, ...], facts: tuple[OpenColumn, ...], row: Int32) -> tuple[OpenColumn, ...]:
    """Returns the arguments in the trace view, followed by the table columns.

    If both have a key, only the table column is returned.
    """
    stated = {fact.key for fact in facts}
    placed = []
    for fact in facts:
        at = row[fact.row]
        order = np.argsort(at, kind="stable")
        placed.append(replace(fact, row=at[order], value=fact.value[order]))
    return (*(column for column in others if column.key not in stated), *placed)
