"""Columns of a trace, collected from several tables."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend.database.cells import Columns
from tb_plugin.formats.ascend.kernel_details import ids_of
from tb_plugin.formats.ascend.timeline import device_args
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.extra_columns import OpenColumn
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import AsyncRows

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]

START, END = "startNs", "endNs"
_TYPES: dict[str, Any] = {
    "start_ns": np.int64, "dur_ns": np.int64, "name": np.int32, "category": np.int32, "kind": np.uint8, "pid": np.int32,
    "tid": np.int32, "nth": np.int64, "correlation": np.int64, "external_id": np.int64, "device": np.int32,
}  # fmt: skip
_ABSENT = {"nth": MISSING, "correlation": MISSING, "external_id": MISSING, "device": MISSING}


class Rows(msgspec.Struct):
    """Rows of a trace, collected table by table."""

    interner: Interner
    count: int = 0
    process_names: dict[str, str] = msgspec.field(default_factory=dict)
    thread_names: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)
    process_order: dict[str, int] = msgspec.field(default_factory=dict)
    _work: list[tuple[Int32, Int32, Int64, Int32]] = msgspec.field(default_factory=list)
    _parts: list[dict[str, Any]] = msgspec.field(default_factory=list)
    _facts: dict[str, list[OpenColumn]] = msgspec.field(default_factory=dict)

    def add(self, **columns: Any) -> Int32:
        """Adds rows and returns their indices. A scalar is used for all rows. Columns that are not passed become -1."""
        count = len(columns["start_ns"])
        part = {key: np.broadcast_to(columns.get(key, _ABSENT.get(key, 0)), count) for key in _TYPES}
        self._parts.append(part)
        row = np.arange(self.count, self.count + count, dtype=np.int32)
        self.count += count
        return row

    def fact(self, key: str, row: Int32, values: Int64 | Float64 | pa.Array) -> None:
        """Adds an argument for some rows. Missing values are -1 for integers, NaN for floats, null for texts."""
        is_text = not isinstance(values, np.ndarray)
        column = ids_of(values, self.interner) if is_text else values
        has_value = np.flatnonzero(~np.isnan(column) if column.dtype.kind == "f" else column != MISSING)
        if len(has_value):
            self._facts.setdefault(key, []).append(OpenColumn(key, row[has_value], column[has_value], is_text))

    def work(
        self, row: Int32, stream: Int32 | None = None, size: Int64 | None = None, direction: Int32 | None = None
    ) -> None:
        """Marks rows as device work. ``size`` is in bytes. ``direction`` contains copy directions as string ids."""
        none = np.full(len(row), MISSING)
        ids = (none.astype(np.int32) if each is None else each for each in (stream, direction))
        self._work.append((row, next(ids), none if size is None else size, next(ids)))

    def text(self, text: str) -> int:
        return self.interner.text(text)

    def numbers(self, values: Int64, form: str = "{}") -> Int32:
        """Formats integers with ``form``, and returns their string ids."""
        distinct, place = np.unique(values, return_inverse=True)
        found: Int32 = np.array([self.text(form.format(value)) for value in distinct.tolist()], np.int32)[place]
        return found

    def columns(self) -> dict[str, Any]:
        """Returns the columns of all rows, and the added arguments. Callers add sections."""
        made: dict[str, Any] = {
            key: np.concatenate([np.empty(0, kind), *(part[key] for part in self._parts)]).astype(kind)
            for key, kind in _TYPES.items()
        }
        empty = np.empty(0, np.int32)
        none = (empty, empty, made["nth"][:0], empty)
        made["device_args"] = device_args(*(np.concatenate(each) for each in zip(none, *self._work, strict=True)))
        return made | {
            "asynchronous": AsyncRows(),
            "others": tuple(_concatenated(parts) for parts in self._facts.values()),
        }


def rows_with_times(read: Columns, log: IssueLog) -> tuple[Columns, Int64, Int64]:
    """Returns the rows that have a start and an end, and their starts and durations. Skips and logs all others."""
    start, end = read.integers(START), read.integers(END)
    # Only half of the 64-bit range is allowed, so that sums of times do not overflow.
    good = read.has_value(START) & read.has_value(END) & (start >= 0) & (end >= start) & (end < 2**62)
    if not good.all():
        log.add("bad_row", "dropped", count=int((~good).sum()))
    row = np.flatnonzero(good)
    return read.take(row), start[row], (end - start)[row]


def names_or_numbers(rows: Rows, ids: Int32, number: Int64) -> Int32:
    """Returns names as string ids. If a number has no text, the number becomes the name."""
    is_missing = ids == MISSING
    if not is_missing.any():
        return ids
    made = ids.copy()
    made[is_missing] = rows.numbers(number[is_missing])
    return made


def _concatenated(parts: list[OpenColumn]) -> OpenColumn:
    first = parts[0]
    same = [part for part in parts if part.is_text == first.is_text]
    row, value = (np.concatenate([getattr(part, key) for part in same]) for key in ("row", "value"))
    order = np.argsort(row, kind="stable")
    return OpenColumn(first.key, row[order].astype(np.int32), value[order], first.is_text)
