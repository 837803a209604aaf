"""Models: the kinds of profiles."""

from __future__ import annotations

from tb_plugin.model_kinds.model_entry import ModelEntry

MODELS = (
    ModelEntry(
        "tb_plugin.model_kinds.trace:MODEL",
        "trace",
        "a trace",
        "overview",
        raw="tb_plugin.model.trace.table:RawTrace",
        made="tb_plugin.model.trace.table:TraceTable",
        features=("steps", "events"),
    ),
    ModelEntry(
        "tb_plugin.model_kinds.rows:SNAPSHOT",
        "snapshot",
        "a memory snapshot",
        "allocations",
        raw="tb_plugin.model.snapshot.table:RawSnapshot",
        made="tb_plugin.model.snapshot.table:Snapshot",
    ),
    ModelEntry(
        "tb_plugin.model_kinds.rows:CATEGORY_MEMORY",
        "category_memory",
        "memory by category",
        "categories",
        raw="tb_plugin.model.category_memory:RawCategoryMemory",
        made="tb_plugin.model.category_memory:CategoryMemory",
    ),
    ModelEntry(
        "tb_plugin.model_kinds.rows:FLIGHT",
        "flight",
        "a flight recorder dump",
        "collectives",
        raw="tb_plugin.model.flight_recorder:RawFlight",
        made="tb_plugin.model.flight_recorder:Flight",
    ),
    ModelEntry(
        "tb_plugin.model_kinds.rows:STACK_PROFILE",
        "stack_profile",
        "a stack file",
        "stack_profile",
        raw="tb_plugin.model.stack_profile:StackProfile",
        made="tb_plugin.model.stack_profile:StackProfile",
    ),
    ModelEntry(
        "tb_plugin.model_kinds.rows:EXECUTION_TRACE",
        "execution_trace",
        "an execution trace",
        "execution_nodes",
        raw="tb_plugin.model.execution_trace:ExecutionTrace",
        made="tb_plugin.model.execution_trace:ExecutionTrace",
    ),
    ModelEntry(
        "tb_plugin.model_kinds.rows:CLUSTER",
        "cluster",
        "an analysis of a job",
        "cluster",
        raw="tb_plugin.model.cluster:Cluster",
        made="tb_plugin.model.cluster:Cluster",
    ),
)
