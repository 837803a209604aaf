"""Vendor-specific kernel data: cores, operations, shares of time.

``DeviceInfo.facts`` defines the meaning of the data for each device family. ``Recorder.kernels`` defines its
columns for each profiler.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin.analysis.kernel_facts import first_reported_text
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import Whole, sum_by
from tb_plugin.model.trace.hardware import DeviceFacts
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable


def facts_of(trace: TraceTable) -> DeviceFacts | None:
    """Returns the meaning of vendor-specific kernel data in this trace; None if no device family defines it."""
    return next((device.facts for device in trace.devices if device.facts is not None), None)


def has_device_facts(trace: TraceTable, keys: Sequence[str]) -> bool:
    """Returns whether the trace contains vendor-specific kernel data under any of these keys."""
    return any(column.key in keys for column in trace.others)


def numbers_of(trace: TraceTable, key: str, rows: Int64) -> Float64:
    """Returns the number recorded under ``key`` for each row, NaN if missing."""
    column = next((each for each in trace.others if each.key == key and not each.is_text), None)
    found = np.full(len(rows), np.nan)
    if column is not None:
        values, has = column.at(rows)
        found[has] = values[has]
    return found


def has_fact_in(trace: TraceTable, keys: Sequence[str], words: Sequence[str], rows: Int64) -> Bool:
    """Returns, for each row, whether the first available value under ``keys`` is one of ``words``."""
    ids = [id for word in words if (id := trace.strings.find(word)) != MISSING]
    found: Bool = np.isin(first_reported_text(trace, keys, rows), ids)
    return found


def most_of(trace: TraceTable, texts: Whole, weight: Int64) -> str:
    """Returns the text (string ids, -1 = missing) with the largest total weight; "" if all are missing."""
    known = texts != MISSING
    found, of = np.unique(texts[known], return_inverse=True)
    if not len(found):
        return ""
    return trace.strings[int(found[np.argmax(sum_by(of, weight[known], len(found)))])]
