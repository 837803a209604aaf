"""Declarations of models that have no events."""

from __future__ import annotations

import pyarrow.compute as pc

from tb_plugin.model import category_memory, flight_recorder
from tb_plugin.model.cluster import Cluster
from tb_plugin.model.execution_trace import ExecutionTrace
from tb_plugin.model.snapshot.assemble import assemble as assemble_snapshot
from tb_plugin.model.snapshot.table import RawSnapshot, Snapshot
from tb_plugin.model.stack_profile import StackProfile
from tb_plugin.model_kinds.base import FileModel, as_read
from tb_plugin.payloads import ClockInfo


def _snapshot_clock(made: Snapshot) -> ClockInfo | None:
    return ClockInfo(str(made.origin_ns), int(made.events.time_ns.max())) if made.has_times else None


def _flight_clock(made: flight_recorder.Flight) -> ClockInfo | None:
    start = made.origin_ns
    return ClockInfo(str(start), pc.max(made.records["created_ns"]).as_py() - start) if start else None


SNAPSHOT = FileModel(
    id="snapshot",
    noun="a memory snapshot",
    version=4,
    default_view="allocations",
    raw=RawSnapshot,
    type=Snapshot,
    assembled=assemble_snapshot,
    clock=_snapshot_clock,
)
CATEGORY_MEMORY = FileModel(
    id="category_memory",
    noun="memory by category",
    version=2,
    default_view="categories",
    raw=category_memory.RawCategoryMemory,
    type=category_memory.CategoryMemory,
    assembled=category_memory.assembled,
)
FLIGHT = FileModel(
    id="flight",
    noun="a flight recorder dump",
    version=2,
    default_view="collectives",
    raw=flight_recorder.RawFlight,
    type=flight_recorder.Flight,
    assembled=flight_recorder.assembled,
    clock=_flight_clock,
)
STACK_PROFILE = FileModel(
    id="stack_profile",
    noun="a stack file",
    version=3,
    default_view="stack_profile",
    raw=StackProfile,
    type=StackProfile,
    assembled=as_read,
)
EXECUTION_TRACE = FileModel(
    id="execution_trace",
    noun="an execution trace",
    version=2,
    default_view="execution_nodes",
    raw=ExecutionTrace,
    type=ExecutionTrace,
    assembled=as_read,
)
CLUSTER = FileModel(
    id="cluster",
    noun="an analysis of a job",
    version=2,
    default_view="cluster",
    raw=Cluster,
    type=Cluster,
    assembled=as_read,
)
