"""Facts that a profile states of its kernels beside what all traces have: cores, operations, shares of their time.

Which columns hold them is data of a family of devices (``DeviceInfo.facts``); a trace of other devices has none.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analyses.grouping import sum_by
from tb_plugin.trace.hardware import DeviceFacts
from tb_plugin.trace.open import OpenColumn
from tb_plugin.trace.schema import MISSING
from tb_plugin.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


def facts_of(trace: TraceTable) -> DeviceFacts | None:
    """Returns what names of facts mean for the devices of a trace; None where no family of theirs says."""
    return next((device.facts for device in trace.devices if device.facts is not None), None)


def column_of(trace: TraceTable, key: str) -> OpenColumn | None:
    """Returns the column of facts with this key; None without one."""
    return next((column for column in trace.others if column.key == key), None) if key else None


def texts_of(trace: TraceTable, key: str, rows: Int64) -> Int64:
    """Returns the string id of a fact of each row, -1 where nothing is stated."""
    column = column_of(trace, key)
    found = np.full(len(rows), MISSING, np.int64)
    if column is not None and column.is_text:
        has, place = _places(column, rows)
        found[has] = column.value[place]
    return found


def numbers_of(trace: TraceTable, key: str, rows: Int64) -> Float64:
    """Returns a fact of each row that is a number, NaN where nothing is stated."""
    column = column_of(trace, key)
    found = np.full(len(rows), np.nan)
    if column is not None and not column.is_text:
        has, place = _places(column, rows)
        found[has] = column.value[place]
    return found


def _places(column: OpenColumn, rows: Int64) -> tuple[Bool, Int64]:
    """Which of these rows have the fact, and where in the column that stands."""
    place = np.minimum(np.searchsorted(column.row, rows), len(column.row) - 1)
    has = column.row[place] == rows if len(column.row) else np.zeros(len(rows), np.bool_)
    found: Int64 = place[has]
    return has, found


def states(trace: TraceTable, key: str, words: tuple[str, ...], rows: Int64) -> Bool:
    """Returns which rows state one of these words as their fact."""
    found: Bool = np.isin(
        texts_of(trace, key, rows), [id for word in words if (id := trace.strings.find(word)) != MISSING]
    )
    return found


def most_of(trace: TraceTable, texts: Int64, weight: Int64) -> str:
    """Returns the text that has most of the weight, "" where none is known."""
    known = texts != MISSING
    found, of = np.unique(texts[known], return_inverse=True)
    if not len(found):
        return ""
    return trace.strings[int(found[np.argmax(sum_by(of, weight[known], len(found)))])]
