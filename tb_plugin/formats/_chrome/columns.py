"""Conversion of Python lists to numpy arrays, and growing columns."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tb_plugin.formats._chrome.times import INT64_MAX
from tb_plugin.lib.arrays import Float64, Int32, Int64

Values = Int64 | list[bytes]  # values of one argument: integers, or JSON


def int64s(values: Sequence[Any]) -> Int64:
    """Returns int64; -1 = not a number. Values beyond 64 bits wrap around, so that addresses stay distinct."""
    try:  # faster than numpy's own conversion
        return np.frombuffer(struct.pack(f"{len(values)}q", *values), np.int64)
    except struct.error:
        pass
    try:  # null is common, for example as the parent of a top-level Python call
        filled = [-1 if value is None else value for value in values]
        return np.frombuffer(struct.pack(f"{len(filled)}q", *filled), np.int64)
    except struct.error:
        return np.array([_integer(value) for value in values], np.int64)


def int32s(values: Sequence[int]) -> Int32:
    return np.frombuffer(struct.pack(f"{len(values)}i", *values), np.int32)


def float64s(values: Sequence[Any]) -> Float64:
    """Returns a float64 array. Infinity and values that are not numbers become NaN."""
    try:
        column = np.frombuffer(struct.pack(f"{len(values)}d", *values), np.float64)
    except (struct.error, OverflowError):
        column = np.array([_number(value) for value in values], np.float64)
    return np.where(np.isfinite(column), column, np.nan)


def _integer(value: Any) -> int:
    try:
        whole = int(value, 0) if isinstance(value, str) else int(value)
    except (TypeError, ValueError, OverflowError):
        try:
            whole = int(float(value))
        except (TypeError, ValueError, OverflowError):
            return -1
    if -INT64_MAX <= whole <= INT64_MAX:
        return whole
    return (whole + 2**63) % 2**64 - 2**63


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


class Column:
    """A column that grows chunk by chunk, in a single buffer. A list of chunks would have to be copied at the end."""

    def __init__(self, dtype: type[Any]) -> None:
        self._dtype = dtype
        self._data = bytearray()

    def add(self, part: npt.NDArray[Any]) -> None:
        self._data.extend(np.ascontiguousarray(part, self._dtype).data)

    def put(self, first: int, part: npt.NDArray[Any]) -> None:
        np.frombuffer(self._data, self._dtype)[first : first + len(part)] = part

    def view(self) -> npt.NDArray[Any]:
        """Returns all values added so far, without a copy. ``add`` fails while the view exists."""
        return np.frombuffer(self._data, self._dtype)

    def take(self) -> npt.NDArray[Any]:
        data, self._data = self._data, bytearray()
        return np.frombuffer(data, self._dtype)


class Section:
    """Columns that have values for some rows only. ``row`` contains the indices of these rows."""

    def __init__(self, **dtypes: type[Any]) -> None:
        self._dtypes = dtypes
        self._columns = {"row": Column(np.int32), **{name: Column(dtype) for name, dtype in dtypes.items()}}

    def add(self, rows: Int64, columns: dict[str, npt.NDArray[Any]]) -> None:
        """Appends the rows that have a value in ``columns``. Other columns of the section get -1 or NaN."""
        if not columns:
            return
        present = np.zeros(len(rows), np.bool_)
        for column in columns.values():
            present |= ~np.isnan(column) if column.dtype.kind == "f" else column != -1
        if not present.all():
            rows = rows[present]
            columns = {name: column[present] for name, column in columns.items()}
        if not len(rows):
            return
        self._columns["row"].add(rows)
        for name, dtype in self._dtypes.items():
            absent = np.nan if dtype is np.float64 else -1
            self._columns[name].add(columns[name] if name in columns else np.full(len(rows), absent, dtype))

    def take(self) -> dict[str, npt.NDArray[Any]]:
        return {name: column.take() for name, column in self._columns.items()}

    def merge(self, columns: dict[str, npt.NDArray[Any]], first_row: int, ids: Int32) -> None:
        """Appends the columns of a piece. ``ids`` maps its text ids; the int32 columns are text ids."""
        for name, column in columns.items():
            if name == "row":
                column = column + np.int32(first_row)
            elif self._dtypes[name] is np.int32:
                column = ids[column]
            self._columns[name].add(column)
