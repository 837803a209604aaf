"""Checked and typed columns of database values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats.issues import IssueLog
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.model.trace.schema import MISSING

_INT64 = 2**63
_DIGITS = re.compile(r" *-?[0-9]{1,19} *")


class Form(Enum):
    """Data type of a column."""

    WHOLE = pa.int64()
    NUMBER = pa.float64()
    TEXT = pa.string()


class Columns:
    """Columns of a table with ``rows`` rows. Missing values and values of the wrong type are null."""

    def __init__(self, arrays: Mapping[str, pa.Array], rows: int) -> None:
        self._arrays = dict(arrays)
        self.rows = rows

    def has(self, name: str) -> bool:
        """Returns True if the table has this column."""
        return name in self._arrays

    def array(self, name: str, form: Form = Form.WHOLE) -> pa.Array:
        """Returns a column. If the table does not have it, all values are null."""
        found = self._arrays.get(name)
        return pa.nulls(self.rows, form.value) if found is None else found

    def integers(self, name: str) -> Int64:
        """Returns integers; -1 = missing."""
        found: Int64 = np.asarray(pc.fill_null(self.array(name), MISSING))
        return found

    def has_value(self, name: str) -> Bool:
        """Returns a boolean mask of the rows that have a value in this column."""
        found: Bool = np.asarray(pc.is_valid(self.array(name)))
        return found

    def number(self, name: str) -> Float64:
        """Returns floats; NaN = missing."""
        found: Float64 = np.asarray(pc.fill_null(self.array(name, Form.NUMBER), np.nan))
        return np.where(np.isfinite(found), found, np.nan)

    def take(self, row: Int64) -> Columns:
        if len(row) == self.rows:
            return self
        place = pa.array(row)
        return Columns({name: array.take(place) for name, array in self._arrays.items()}, len(row))


def column_of(values: Sequence[Any], form: Form, log: IssueLog, where: str) -> pa.Array:
    """Converts values to a column of type ``form``. Values of the wrong type are logged and become null."""
    try:
        return pa.array(values, form.value)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError):
        pass
    if form is Form.WHOLE:  # older versions wrote times as text
        try:
            return pc.cast(pa.array(values, pa.string()), pa.int64())
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError):
            pass
    read = _READ[form]
    made = [None if value is None else read(value) for value in values]
    bad = sum(one is None for one in made) - sum(one is None for one in values)
    if bad:
        log.add("bad_cell", "note", example=where, count=bad)
    return pa.array(made, form.value)


def _as_integer(value: Any) -> int | None:
    if isinstance(value, str):
        value = int(value) if _DIGITS.fullmatch(value) else None
    elif isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return value if isinstance(value, int) and -_INT64 <= value < _INT64 else None


def _as_number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None


def _as_text(value: Any) -> str | None:
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else None


_READ: dict[Form, Callable[[Any], Any]] = {Form.WHOLE: _as_integer, Form.NUMBER: _as_number, Form.TEXT: _as_text}
