"""Columns of a trace, collected from several tables."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend.database.cells import Columns
from tb_plugin.formats.ascend.database.names import Names
from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Float64, Int32, Int64
from tb_plugin.model.trace.extra_columns import OpenColumn
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import AsyncRows

START, END = "startNs", "endNs"
MOST_DEVICE = 4096  # larger numbers are not devices
# type and default of each column; the kind of most rows follows from their lane and category
_COLUMNS: dict[str, tuple[Any, int]] = {
    "start_ns": (np.int64, 0), "dur_ns": (np.int64, 0), "name": (np.int32, 0), "category": (np.int32, 0),
    "kind": (np.uint8, EventKind.ANNOTATION), "pid": (np.int32, 0), "tid": (np.int32, 0), "nth": (np.int64, MISSING),
    "lane": (np.uint8, 0), "device": (np.int32, MISSING),
}  # fmt: skip


class Rows(msgspec.Struct):
    """Rows of a trace, collected table by table."""

    interner: Interner
    names: Names
    count: int = 0
    process_names: dict[str, str] = msgspec.field(default_factory=dict)
    thread_names: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)
    process_order: dict[str, int] = msgspec.field(default_factory=dict)
    _parts: list[dict[str, Any]] = msgspec.field(default_factory=list)
    _facts: dict[str, list[OpenColumn]] = msgspec.field(default_factory=dict)

    def add(self, **columns: Any) -> Int32:
        """Adds rows and returns their indices. A scalar is used for all rows."""
        count = len(columns["start_ns"])
        columns.setdefault("category", self.text(""))
        self._parts.append(
            {key: np.broadcast_to(columns.get(key, default), count) for key, (_, default) in _COLUMNS.items()}
        )
        row = np.arange(self.count, self.count + count, dtype=np.int32)
        self.count += count
        return row

    def fact(self, key: str, row: Int32, values: Int64 | Float64 | Int32, is_text: bool = False) -> None:
        """Adds an argument for some rows. Missing values are -1 for integers and string ids, NaN for floats."""
        has_value = np.flatnonzero(~np.isnan(values) if values.dtype.kind == "f" else values != MISSING)
        if len(has_value):
            self._facts.setdefault(key, []).append(OpenColumn(key, row[has_value], values[has_value], is_text))

    def word(self, key: str, row: Int32, number: Int64, names: Names | None = None) -> None:
        """Adds a text argument for some rows. ``number`` refers to a table of texts."""
        self.fact(key, row, (names or self.names).ids(number), is_text=True)

    def text(self, text: str) -> int:
        return self.interner.text(text)

    def numbers(self, values: Int64, form: str = "{}") -> Int32:
        """Formats integers with ``form``, and returns their string ids."""
        distinct, place = np.unique(values, return_inverse=True)
        found: Int32 = np.array([self.text(form.format(value)) for value in distinct.tolist()], np.int32)[place]
        return found

    def name_ids(self, number: Int64) -> Int32:
        """Returns names as string ids. If a number has no text, the number becomes the name."""
        ids = self.names.ids(number)
        is_missing = ids == MISSING
        if is_missing.any():
            ids[is_missing] = self.numbers(number[is_missing])
        return ids

    def columns(self) -> dict[str, Any]:
        """Returns the columns of all rows, and the added arguments."""
        made: dict[str, Any] = {
            key: np.concatenate([np.empty(0, kind), *(part[key] for part in self._parts)]).astype(kind)
            for key, (kind, _) in _COLUMNS.items()
        }
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


def distinct_pairs(first: Int64, second: Int64) -> tuple[Int64, Int64, npt.NDArray[np.intp]]:
    """Returns both numbers of each distinct pair, and the index of each row's pair."""
    firsts, first_place = np.unique(first, return_inverse=True)
    seconds, second_place = np.unique(second, return_inverse=True)
    width = max(len(seconds), 1)
    code, place = np.unique(first_place * width + second_place, return_inverse=True)
    return firsts[code // width], seconds[code % width], place


def devices_in(read: Columns) -> Int64:
    """Returns device numbers. Missing and invalid numbers become 0."""
    device = read.integers("deviceId")
    return np.where((device >= 0) & (device <= MOST_DEVICE), device, 0)


def connection_ids(connection: Int64) -> Int64:
    """Returns connection ids. Ids that mean "none" (0 or the largest 32-bit number) become -1."""
    return np.where((connection > 0) & (connection != 2**32 - 1), connection, MISSING)


def lane_pid(host_pid: str, order: int, device: int) -> str:
    """Returns the process id that a trace view uses for counters and garbage collections."""
    return str(((int(host_pid) if host_pid else 0) << 10) | (order << 5) | device)


def _concatenated(parts: list[OpenColumn]) -> OpenColumn:
    first = parts[0]
    same = [part for part in parts if part.is_text == first.is_text]
    row, value = (np.concatenate([getattr(part, key) for part in same]) for key in ("row", "value"))
    order = np.argsort(row, kind="stable")
    return OpenColumn(first.key, row[order].astype(np.int32), value[order], first.is_text)
