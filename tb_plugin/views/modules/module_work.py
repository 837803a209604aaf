"""FLOPs and bytes of modules and compiled regions, forward and backward."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.forest import Forest, outermost_of
from tb_plugin.analysis.host_calls import HostCalls
from tb_plugin.analysis.work.operator_work import OperatorWork
from tb_plugin.analysis.work.rates import WorkSums, kernel_work, no_work
from tb_plugin.lib.arrays import Float64
from tb_plugin.lib.groupby import Groups
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable


def called_work(trace: TraceTable, calls: HostCalls, groups: Groups, work: OperatorWork) -> WorkSums:
    """Returns the work of each group, with that of nested calls. Each kernel counts once per group."""
    some = (calls.owner != MISSING) & (trace.kind[calls.work] == EventKind.KERNEL)
    if not len(work.call) or not some.any():
        return no_work(len(groups))
    owner = calls.owner[some]
    once, forest = outermost_of(groups.of, calls.spans, calls.parent), Forest(calls.parent)

    def total(values: Float64) -> Float64:
        own = np.bincount(owner, weights=values, minlength=len(calls.row))
        return groups.sum_real(np.where(once, forest.sums(own), 0.0))

    return kernel_work(trace, work, calls.work[some]).each(total)
