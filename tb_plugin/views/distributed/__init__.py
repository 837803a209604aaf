"""The view ``distributed``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    if trace.is_collective.any():
        return None
    return Missing("The trace holds no communication between processes.", trace.recorder.todo("view.distributed"))


GROUP_TABLES = (
    "workers", "collectives", "operations", "process_groups", "devices", "clocks", "stragglers", "bandwidths",
    "bandwidth_fits", "nodes",
)  # fmt: skip
STATED_TABLES = ("traffic", "rank_steps", "operation_types", "kinds_of_links", "links", "recorders")
GROUP_FACTS = {
    "compute_ns": "compute_ns",
    "overlap_ns": "overlap_ns",
    "exposed_communication_ns": "exposed_communication_ns",
    "wait_ns": "wait_ns",
    "transfer_ns": "transfer_ns",
    "other_ns": "step_other_ns",
}
"""Numbers of a worker in a report, and their columns of the table of workers."""

VIEW = ViewEntry(
    __name__,
    "distributed",
    "Distributed",
    order=250,
    model=TRACE,
    traits=Traits(
        "Ranks",
        whole="It compares whole steps of all workers.",
        tables=GROUP_TABLES,
        where_stated=STATED_TABLES,
        facts=GROUP_FACTS,
        beside="ranks_collectives",
    ),
    scope="workers",
    borrows={"memory_states": ("memory_states",)},
    missing=_missing,
)
