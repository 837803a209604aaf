"""Step times and compute time reported by the profiler."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.device_time import device_time
from tb_plugin.analysis.metrics import FULL_TRACE, STEPS, define
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.job_tables import STEP_TIMES, job_table, reported_table
from tb_plugin.model.trace.table import TraceTable

REPORTED_STEP = define(
    STEPS,
    "ns",
    {"stated_step_ns": ("Reported step time", "Sum of reported preparing, stage and bubble time, per step.")},
)
REPORTED_COMPUTE = define(
    FULL_TRACE,
    "ns",
    {
        "recorded_compute_ns": ("Recorded", "Compute kernel time, summed over all devices."),
        "stated_compute_ns": ("Reported", "Reported compute time over all steps."),
    },
)
# Minimum share of reported computation that recorded kernels must cover; step bounds differ slightly.
RECORDED = 0.9


def reported_steps(trace: TraceTable, chosen: Sequence[str] | None) -> pa.Table:
    """Returns the table of reported step times.

    If the profile contains step names, only the selected steps are included.
    """
    table = reported_table(trace.reported_tables, STEP_TIMES)
    if table is None:
        return job_table(STEP_TIMES, {})
    table = table.filter(pc.is_null(table["stage_ranks"]))
    if chosen is not None and pc.any(pc.is_valid(table["step"])).as_py():
        table = table.filter(pc.is_in(table["step"], pa.array(chosen, pa.string())))
    return table


def reported_step_length(table: pa.Table) -> float | None:
    """Returns the mean reported step time, including the time before the first work of a step.

    Returns None if there are no steps.
    """
    length = pc.add(table["stage_ns"], table["bubble_ns"])
    found: float | None = pc.mean(pc.add(length, pc.fill_null(table["preparing_ns"], 0))).as_py()
    return found


def length_without_kernels(trace: TraceTable, chosen: Sequence[str] | None) -> float | None:
    """Returns the mean reported step time if too many kernels are missing, None otherwise."""
    return None if missing_computation(trace) is None else reported_step_length(reported_steps(trace, chosen))


@cached_by_argument
def missing_computation(trace: TraceTable) -> tuple[int, int] | None:
    """Returns the recorded compute time and the reported compute time. Returns None if at least ``RECORDED`` of the
    reported compute time is recorded.

    If the result is not None, idle time and overlap are unknown.
    """
    if not trace.reported_tables:
        return None
    stated = pc.sum(reported_steps(trace, None)["computing_ns"]).as_py() or 0
    if not stated:
        return None
    times = (device_time(trace, device) for device in range(len(trace.devices)))
    recorded = sum(time.compute_ns for time in times if time is not None)
    return (recorded, stated) if recorded < RECORDED * stated else None
