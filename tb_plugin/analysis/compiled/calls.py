"""Calls of compiled code, in the trace and in captures."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.host_calls import Called
from tb_plugin.analysis.range_patterns import REGION
from tb_plugin.model.trace.schema import EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]


def called_of(trace: TraceTable, row: Int64) -> Called:
    """Returns the calls of compiled code, both in the trace (as rows) and in graph captures."""
    scopes = origins_of(trace).scopes
    bears = np.zeros(0, np.bool_)
    if len(scopes):
        named = trace.strings.where(lambda text: text.startswith(REGION))[scopes.name]
        bears = named & of_kind(scopes.kind, EventKind.OPERATOR, EventKind.ANNOTATION)
    return Called(row, trace.name[row].astype(np.int64), bears, scopes.name.astype(np.int64))
