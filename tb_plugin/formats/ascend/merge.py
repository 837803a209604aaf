"""One trace of what the files of a profile say: the rows of the trace view, with the kernels and facts of the tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend.kernels import Kernels, places_among
from tb_plugin.formats.ascend.timeline import device_args
from tb_plugin.model.trace.extra_columns import OpenColumn
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import AsyncRows, DeviceArgs

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

_GROUPS = "Communication"


def no_rows_at_all() -> dict[str, Any]:
    """Returns the columns of a profile without a trace view."""
    none, ids = np.empty(0, np.int64), np.empty(0, np.int32)
    return {
        "start_ns": none, "dur_ns": none, "name": ids, "category": ids, "kind": np.empty(0, np.uint8), "pid": ids, "tid": ids,
        "nth": none, "correlation": none, "external_id": none, "device": ids, "asynchronous": AsyncRows(),
        "device_args": DeviceArgs(), "others": (),
    }  # fmt: skip


def with_kernels(
    columns: dict[str, Any], kernels: Kernels, interner: Interner, row: Int32 | None = None
) -> tuple[dict[str, Any], Int32]:
    """Returns the columns with what the table says of kernels, and the row of each kernel.

    A kernel that the trace view draws keeps its place there; all others become rows of streams of their own. ``row`` are
    their rows where the profile says which they are.
    """
    if row is None:
        drawn = np.flatnonzero(columns["kind"] == EventKind.KERNEL)
        row = places_among(kernels, columns["name"], columns["start_ns"], drawn)
    known = np.flatnonzero(row != MISSING)
    alone = np.flatnonzero(row == MISSING)
    made = dict(columns)
    made["dur_ns"] = made["dur_ns"].copy()
    made["dur_ns"][row[known]] = kernels.dur_ns[known]
    count = len(made["start_ns"])
    row[alone] = count + np.arange(len(alone), dtype=np.int32)
    if len(alone):
        made = _appended(made, kernels, alone, row[alone], interner)
    made["others"] = _joined(made["others"], kernels.facts, row)
    return made, row


def _appended(made: dict[str, Any], kernels: Kernels, some: Int64, row: Int32, interner: Interner) -> dict[str, Any]:
    ids, count = interner.text, len(some)
    on_stream = kernels.stream[some] != MISSING
    device = np.maximum(kernels.device[some], 0)
    number = np.array([ids(str(each)) for each in range(int(device.max()) + 1)], np.int32)
    none = np.full(count, MISSING, np.int64)
    rows: dict[str, Any] = {
        "start_ns": kernels.start_ns[some],
        "dur_ns": kernels.dur_ns[some],
        "name": kernels.name[some],
        "category": np.full(count, ids(""), np.int32),
        "kind": np.full(count, EventKind.KERNEL, np.uint8),
        "pid": number[device],
        "tid": np.where(on_stream, kernels.stream[some], ids(_GROUPS)).astype(np.int32),
        "nth": none,
        "correlation": none,
        "external_id": none,
        "device": device,
    }
    made = {key: np.concatenate((made[key], rows[key])) if key in rows else made[key] for key in made}
    before = made["device_args"]
    more = device_args(row, kernels.stream[some], none, none.astype(np.int32))
    made["device_args"] = replace(
        before, **{key: np.concatenate((column, vars(more)[key])) for key, column in vars(before).items()}
    )
    return made


def _joined(others: tuple[OpenColumn, ...], facts: tuple[OpenColumn, ...], row: Int32) -> tuple[OpenColumn, ...]:
    """Arguments of the trace view, then the facts of the tables; of a key that both have, the tables' counts."""
    stated = {fact.key for fact in facts}
    placed = []
    for fact in facts:
        at = row[fact.row]
        order = np.argsort(at, kind="stable")
        placed.append(replace(fact, row=at[order], value=fact.value[order]))
    return (*(column for column in others if column.key not in stated), *placed)
