"""Vendor-specific data about kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable


def first_reported_text(trace: TraceTable, keys: Sequence[str], rows: Int64) -> Int32:
    """Returns, for each row, the string id of the first available text under ``keys`` (-1 = none)."""
    found = np.full(len(rows), MISSING, np.int32)
    known = {column.key: column for column in trace.others if column.is_text}
    for key in keys:
        if (column := known.get(key)) is not None:
            values, has = column.at(rows)
            found = np.where((found == MISSING) & has, values, found).astype(np.int32)
    return found


@cached_by_argument
def on_counted_cores(trace: TraceTable) -> Bool:
    """Returns a mask of the kernels on core types that have separate times in the profiler's operator tables."""
    facts = trace.recorder.kernels
    flags = np.zeros(len(trace), np.bool_)
    ids = {trace.strings.find(text) for text in facts.counted} - {MISSING}
    if ids:
        kernels = np.flatnonzero(trace.kind == EventKind.KERNEL)
        flags[kernels] = np.isin(first_reported_text(trace, facts.core, kernels), list(ids))
    return flags
