"""Compilation step by step: when it happened, and what guards and wrappers take once it is over."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.compiled.compiling import compilations_of, guards_of, wrapper_times
from tb_plugin.analysis.compiled.regions import regions_of
from tb_plugin.analysis.groupby import ratio, sum_by
from tb_plugin.analysis.selection import steps_of
from tb_plugin.lib.intervals import measure_within, union
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.compiled.metrics import METRICS

Int64 = npt.NDArray[np.int64]


def steps_frame(trace: TraceTable, chosen: tuple[str, ...] | None) -> Frame:
    """Returns a row a recorded step, in order: how long it compiled, and what calls of compiled code cost beside that."""
    steps = steps_of(trace, chosen)
    steps = steps if steps.recorded else steps.only([])
    made, guards, regions = compilations_of(trace), guards_of(trace), regions_of(trace)
    begin, end = steps.host_start_ns, steps.host_end_ns
    compiling = measure_within(union(trace.start_ns[made.row], trace.ends(made.row)), begin, end)

    def within(row: Int64, values: Int64) -> Int64:
        """Sums over the rows that begin in each step."""
        at = steps.at(trace.start_ns[row], on_host=True)
        return sum_by(at[at != MISSING], values[at != MISSING], len(steps.label))

    data = {
        "step": pa.array(steps.label, pa.string()),
        "compiling_in_step_ns": pa.array(compiling),
        "compiling_ratio": pa.array(ratio(compiling, end - begin)),
        "compilations": pa.array(within(made.row, np.ones(len(made.row), np.int64))),
        "calls": pa.array(within(regions.row, np.ones(len(regions.row), np.int64))),
        "guard_ns": pa.array(within(guards.row, trace.dur_ns[guards.row])),
        "wrapper_ns": pa.array(within(regions.row, wrapper_times(trace))),
    }
    return Frame(
        name="compiled_steps",
        title="Compilation by step",
        columns=METRICS.columns(*data, share=("compiling_in_step_ns",)),
        data=pa.table(data),
        row_key=("step",),
        name_column="step",
    )
