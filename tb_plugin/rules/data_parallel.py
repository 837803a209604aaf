"""DataParallel: one process for several devices."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.communication import computation_ranges
from tb_plugin.analysis.copy_directions import copies_in_direction
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import measure_within, subtract, union
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.rules._base import COMMON, NO_SAVING, Detection, Limit, Rule, Scene, optional
from tb_plugin.rules._collectives import is_data_parallel

METRICS = COMMON.in_steps(
    ns={
        "exchange_ns": (
            "Between devices",
            "Time of collectives and device-to-device copies while nothing computes, per step.",
        )
    }
)


def _look(s: Scene) -> Detection | None:
    trace = s.trace
    if not is_data_parallel(trace):
        return None
    rows = _exchanges(s)
    alone = subtract(union(trace.start_ns[rows], trace.ends(rows)), computation_ranges(trace))
    exchange = s.per_step(int(measure_within(alone, s.steps.start_ns, s.steps.end_ns).sum()))
    notice = s.notice(
        RULE,
        text="One process drives {affected} devices with copies of the model (DataParallel)"
        + (
            ". Data exchange between devices takes {exchange_ns} per step while no device computes."
            if exchange
            else "."
        ),
        figures=[
            METRICS.figure("affected", len(np.unique(trace.device[trace.device != MISSING])), "Devices"),
            *METRICS.measured(**optional(exchange, exchange_ns=exchange)),
        ],
        why="One Python process launches the work of all devices. This process copies the model to each device in every "
        "step, and gathers gradients after the backward pass. The trace does not show how fast one process per device would "
        "be.",
        confidence="high",
    )
    return Detection(notice, NO_SAVING, rows)


def _exchanges(s: Scene) -> Int64:
    copies = copies_in_direction(s.trace, "ptop", s.rows_of(EventKind.MEMCPY))
    collectives = s.kernels[s.trace.is_collective[s.kernels]]
    return s.by_length(np.concatenate((copies, collectives)))


RULE = Rule(
    __name__,
    title="DataParallel",
    look=_look,
    order=430,
    detects="One process drives several GPUs with DataParallel.",
    threshold="The trace contains `DataParallel.forward` and more than one GPU.",
    saving="None: the trace does not show how fast one process per GPU would be.",
    notes="""
        The finding reports the time of collectives and copies between GPUs while no GPU computes (`exchange_ns`). Other
        rules exclude the collectives of DataParallel.
    """,
    limits=(Limit.COMMUNICATION,),
)
