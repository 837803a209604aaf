"""Storage of models that have no events."""

from __future__ import annotations

import pyarrow.compute as pc

from tb_plugin.model import category_memory, flight_recorder
from tb_plugin.model.cluster import Cluster
from tb_plugin.model.execution_trace import ExecutionTrace
from tb_plugin.model.snapshot.assemble import assemble as assemble_snapshot
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.model.stack_profile import StackProfile
from tb_plugin.model_kinds.base import FileModel
from tb_plugin.payloads import ClockInfo


def _snapshot_clock(made: Snapshot) -> ClockInfo | None:
    return ClockInfo(str(made.origin_ns), int(made.events.time_ns.max())) if made.has_times else None


def _flight_clock(made: flight_recorder.Flight) -> ClockInfo | None:
    start = made.origin_ns
    return ClockInfo(str(start), pc.max(made.records["created_ns"]).as_py() - start) if start else None


SNAPSHOT = FileModel(4, Snapshot, assemble_snapshot, _snapshot_clock)
CATEGORY_MEMORY = FileModel(2, category_memory.CategoryMemory, category_memory.assembled)
FLIGHT = FileModel(2, flight_recorder.Flight, flight_recorder.assembled, _flight_clock)
STACK_PROFILE = FileModel[StackProfile, StackProfile](3, StackProfile)
EXECUTION_TRACE = FileModel[ExecutionTrace, ExecutionTrace](2, ExecutionTrace)
CLUSTER = FileModel[Cluster, Cluster](2, Cluster)
