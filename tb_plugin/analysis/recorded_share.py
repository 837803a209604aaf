"""Shares of a program's operators and kernels that the recording contains."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.graphs.captures import captures
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, CallRole, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable

MAX_ID_GAPS = 0.25
"""Complete recordings skip an id where another thread begins a block of ids: up to a tenth of all ids follow a gap."""
MIN_IDS = 100
"""Fewer ids prove nothing."""
MIN_LAUNCHES = 20
MAX_MISSING_KERNELS = 0.2
"""Share of the launches without a recorded kernel: it would make up as much idle time as limits a program."""


@remembered
def operators_recorded(trace: TraceTable) -> float:
    """Returns the share of operators that are recorded, by their ids; 1 where ids show no gaps or are missing.

    PyTorch numbers operators and annotations one after another. A recording from which some were filtered has gaps
    everywhere.
    """
    if not trace.recorder.numbers_operators:
        return 1.0
    rows = of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION) & (trace.external_id > 0)
    ids = np.unique(trace.external_id[rows])
    if len(ids) < MIN_IDS or (np.diff(ids) > 1).mean() < MAX_ID_GAPS:
        return 1.0
    return len(ids) / float(ids[-1] - ids[0] + 1)


@remembered
def kernels_recorded(trace: TraceTable) -> float:
    """Returns the share of kernel launches with recorded work, from the first such launch to the last; 1 where few are.

    Launches after the last are left out: work that was queued at the end of a recording is missing from most. So are
    launches into a graph, which run nothing, and those of a window, whose work may lie outside.
    """
    if trace.coverage.whole is not None:
        return 1.0
    calls = np.flatnonzero(trace.calls_that(CallRole.LAUNCH))
    calls = calls[~np.isin(calls, captures(trace).source)]
    launched = np.zeros(len(trace) + 1, np.bool_)
    launched[trace.launch[of_kind(trace.kind, *DEVICE_WORK)]] = True
    launched[MISSING] = False
    calls = calls[np.argsort(trace.start_ns[calls], kind="stable")]
    found = np.flatnonzero(launched[calls])
    return len(found) / float(found[-1] - found[0] + 1) if len(calls) >= MIN_LAUNCHES and len(found) else 1.0


def is_sampled(trace: TraceTable) -> bool:
    """Returns whether so many operators or kernels are missing that idle time means nothing."""
    return operators_recorded(trace) < 1 or kernels_recorded(trace) < 1 - MAX_MISSING_KERNELS
