"""Kernel times of a worker by step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.annotations import launched_by
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable

Int64 = npt.NDArray[np.int64]

KERNEL = {
    "step": pa.string(), "kernel": pa.dictionary(pa.int32(), pa.string()), "kernel_calls": pa.int64(),
    "kernel_ns": pa.int64(),
}  # fmt: skip
# maximum number of kernels listed per step, most time first; one more row sums the others
MAX_KERNELS_PER_STEP = 64


def kernels_table(trace: TraceTable) -> pa.Table:
    """Returns the time and the number of calls of each compute kernel by step, longest first.

    If the trace has no compute kernels, the rows are host operators with their self time.
    """
    rows = np.flatnonzero((trace.kind == EventKind.KERNEL) & ~trace.is_collective)
    if len(rows):
        source, time = launched_by(trace, rows).astype(np.int64), trace.dur_ns
    else:
        rows = np.flatnonzero((trace.kind == EventKind.OPERATOR) & ~trace.is_collective)
        source, time = rows, trace.self_ns
    known = source != MISSING
    begin = np.append(trace.start_ns, MISSING)[np.where(known, source, rows)]
    step = np.where(known, trace.steps.at(begin, on_host=True), trace.steps.at(begin))
    ones = group(step, trace.name[rows])
    of_step, name = step[ones.first], trace.name[rows][ones.first].astype(np.int64)
    calls, spent = ones.count(), ones.sum(time[rows])
    order = np.lexsort((name, -spent, of_step))
    begins = np.searchsorted(of_step[order], of_step[order])
    name[order[np.arange(len(order)) - begins >= MAX_KERNELS_PER_STEP]] = MISSING
    rest = group(of_step[order], name[order])
    first = order[rest.first]
    names_of_rows, label = name[first], of_step[first]
    unique, which = np.unique(names_of_rows, return_inverse=True)
    labels = pa.array(trace.steps.label, pa.string())
    return pa.table(
        {
            "step": labels.take(pa.array(label, mask=label == MISSING)),
            "kernel": pa.DictionaryArray.from_arrays(
                pa.array(which.ravel(), pa.int32()),
                pa.array([trace.strings[each] for each in unique.tolist()], pa.string()),
            ),
            "kernel_calls": pa.array(rest.sum(calls[order])),
            "kernel_ns": pa.array(rest.sum(spent[order])),
        },
        pa.schema(KERNEL),
    )
