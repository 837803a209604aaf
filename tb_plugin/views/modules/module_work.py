"""FLOPs and bytes of modules and compiled regions, forward and backward."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.forest import Forest, outermost_of
from tb_plugin.analysis.host_calls import HostCalls
from tb_plugin.analysis.work.operator_work import OperatorWork
from tb_plugin.analysis.work.rates import WorkSums, kernel_work, no_work
from tb_plugin.lib.groupby import Groups
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable


def called_work(trace: TraceTable, calls: HostCalls, groups: Groups, work: OperatorWork) -> WorkSums:
    """Returns the work of each group, with that of nested calls. Each kernel counts once per group."""
    if not len(work.row):
        return no_work(len(groups))
    some = trace.kind[calls.work] == EventKind.KERNEL
    once, forest = outermost_of(groups.of, calls.spans, calls.parent), Forest(calls.parent)
    own = kernel_work(trace, work, calls.work[some], calls.owner[some], len(calls.row))
    return own.each(lambda values: groups.sum_real(np.where(once, forest.sums(values), 0.0)))
