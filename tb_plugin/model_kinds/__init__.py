"""What a profile may be. One file a model; MODELS is the literal list of them."""

from __future__ import annotations

from typing import Any

from tb_plugin.model_kinds.base import Model
from tb_plugin.model_kinds.category_memory import CategoryMemoryModel
from tb_plugin.model_kinds.cluster import ClusterModel
from tb_plugin.model_kinds.execution_trace import ExecutionTraceModel
from tb_plugin.model_kinds.flight_recorder import FlightModel
from tb_plugin.model_kinds.memory_flow import MemoryFlowModel
from tb_plugin.model_kinds.snapshot import SnapshotModel
from tb_plugin.model_kinds.stack_profile import StackProfileModel
from tb_plugin.model_kinds.trace import TraceModel

MODELS: tuple[Model[Any, Any], ...] = (
    TraceModel(),
    SnapshotModel(),
    CategoryMemoryModel(),
    MemoryFlowModel(),
    FlightModel(),
    StackProfileModel(),
    ExecutionTraceModel(),
    ClusterModel(),
)
