"""What a profile may be. One file a model; MODELS is the literal list of them."""

from __future__ import annotations

from typing import Any

from tb_plugin.models.base import Model
from tb_plugin.models.category_memory import CategoryMemoryModel
from tb_plugin.models.cluster import ClusterModel
from tb_plugin.models.execution_trace import ExecutionTraceModel
from tb_plugin.models.flight import FlightModel
from tb_plugin.models.memory_flow import MemoryFlowModel
from tb_plugin.models.snapshot import SnapshotModel
from tb_plugin.models.stack_profile import StackProfileModel
from tb_plugin.models.trace import TraceModel

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
