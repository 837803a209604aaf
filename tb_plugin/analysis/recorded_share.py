"""Shares of operators and kernels that are recorded."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.graphs.captures import captures
from tb_plugin.lib.groupby import distinct_values
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, CallRole, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable

# Complete recordings skip an id when another thread starts a block of ids: up to a tenth of all ids follow a gap.
MAX_ID_GAPS = 0.25
# Fewer ids prove nothing.
MIN_IDS = 100
MIN_LAUNCHES = 20
# Share of launches without a recorded kernel, which would look like that much idle time.
MAX_MISSING_KERNELS = 0.2


@cached_by_argument
def operators_recorded(trace: TraceTable) -> float:
    """Returns the share of recorded operators, from gaps in their consecutive ids; 1 if there are few gaps."""
    if not trace.recorder.numbers_operators:
        return 1.0
    rows = of_kind(trace.kind, EventKind.OPERATOR, EventKind.ANNOTATION) & (trace.external_id > 0)
    ids = distinct_values(trace.external_id[rows])
    if len(ids) < MIN_IDS or (np.diff(ids) > 1).mean() < MAX_ID_GAPS:
        return 1.0
    return len(ids) / float(ids[-1] - ids[0] + 1)


@cached_by_argument
def kernels_recorded(trace: TraceTable) -> float:
    """Returns the share of kernel launches whose kernels are recorded. The result is 1 if there are few launches.

    Only launches between the first and the last launch with recorded work are included, because work that is queued
    when the recording ends is often missing. Launches that are captured into CUDA graphs are excluded. The result
    is always 1 for a loaded window.
    """
    if trace.coverage.full is not None:
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
    """Returns whether so many operators or kernels are missing that idle time is meaningless."""
    return operators_recorded(trace) < 1 or kernels_recorded(trace) < 1 - MAX_MISSING_KERNELS
