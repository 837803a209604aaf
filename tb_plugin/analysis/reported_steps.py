"""Times of steps that a profile states, and whether it states more computation than it has kernels for."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.device_time import device_time
from tb_plugin.analysis.metrics import STEPS, WHOLE, define
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.job_tables import STEP_TIMES, job_table, stated_in
from tb_plugin.model.trace.table import TraceTable

REPORTED_STEP = define(
    STEPS,
    "ns",
    {
        "stated_step_ns": ("Reported step time", "Reported preparing plus stage plus bubble, per step."),
    },
)
REPORTED_COMPUTE = define(
    WHOLE,
    "ns",
    {
        "recorded_compute_ns": ("Recorded", "Compute kernel time over all devices."),
        "stated_compute_ns": ("Reported", "Reported compute time over all steps."),
    },
)
RECORDED = 0.9
"""Share of the stated computation that recorded kernels have to make up: steps begin and end a little elsewhere."""


def reported_steps(trace: TraceTable, chosen: Sequence[str] | None) -> pa.Table:
    """Returns the times of steps that the profile states, of the chosen steps where it names steps."""
    table = stated_in(trace.stated, STEP_TIMES)
    if table is None:
        return job_table(STEP_TIMES, {})
    table = table.filter(pc.is_null(table["stage_ranks"]))
    if chosen is not None and pc.any(pc.is_valid(table["step"])).as_py():
        table = table.filter(pc.is_in(table["step"], pa.array(chosen, pa.string())))
    return table


def reported_step_length(table: pa.Table) -> float | None:
    """Returns the mean of the steps' lengths that are stated, with what comes before their first work; None without any."""
    length = pc.add(table["stage_ns"], table["bubble_ns"])
    found: float | None = pc.mean(pc.add(length, pc.fill_null(table["preparing_ns"], 0))).as_py()
    return found


def length_without_kernels(trace: TraceTable, chosen: Sequence[str] | None) -> float | None:
    """Returns the steps' stated mean length where most kernels are missing; None where what was recorded tells it."""
    return None if missing_computation(trace) is None else reported_step_length(reported_steps(trace, chosen))


@remembered
def missing_computation(trace: TraceTable) -> tuple[int, int] | None:
    """Returns how long kernels compute, as recorded and as stated, where most of what is stated was not recorded; else None.

    Then nobody can tell when a device was idle, nor what hides communication.
    """
    if not trace.stated:
        return None
    stated = pc.sum(reported_steps(trace, None)["computing_ns"]).as_py() or 0
    if not stated:
        return None
    times = (device_time(trace, device) for device in range(len(trace.devices)))
    recorded = sum(time.compute_ns for time in times if time is not None)
    return (recorded, stated) if recorded < RECORDED * stated else None
