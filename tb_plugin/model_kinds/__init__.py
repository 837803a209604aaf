"""What a profile may be; MODELS is the literal list."""

from __future__ import annotations

from typing import Any

from tb_plugin.model_kinds.base import Model
from tb_plugin.model_kinds.rows import (
    CATEGORY_MEMORY,
    CLUSTER,
    EXECUTION_TRACE,
    FLIGHT,
    MEMORY_FLOW,
    SNAPSHOT,
    STACK_PROFILE,
)
from tb_plugin.model_kinds.trace import TraceModel

MODELS: tuple[Model[Any, Any], ...] = (
    TraceModel(),
    SNAPSHOT,
    CATEGORY_MEMORY,
    MEMORY_FLOW,
    FLIGHT,
    STACK_PROFILE,
    EXECUTION_TRACE,
    CLUSTER,
)
