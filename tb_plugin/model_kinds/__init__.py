"""Kinds of profiles. ``MODELS`` declares them; the code of a kind, one file each, is imported at first use."""

from __future__ import annotations

from tb_plugin.model_kinds.model_entry import ModelEntry

MODELS = (
    ModelEntry(
        "trace",
        "trace",
        "a trace",
        "overview",
        raw="tb_plugin.model.trace.table:RawTrace",
        made="tb_plugin.model.trace.table:TraceTable",
        features=("steps", "events"),
    ),
    ModelEntry(
        "snapshot",
        "snapshot",
        "a memory snapshot",
        "allocations",
        raw="tb_plugin.model.snapshot.table:RawSnapshot",
        made="tb_plugin.model.snapshot.table:Snapshot",
    ),
    ModelEntry(
        "category_memory",
        "category_memory",
        "memory by category",
        "categories",
        raw="tb_plugin.model.category_memory.table:RawCategoryMemory",
        made="tb_plugin.model.category_memory.table:CategoryMemory",
    ),
    ModelEntry(
        "memory_flow",
        "memory_flow",
        "a memory flow",
        "memory_flow",
        raw="tb_plugin.model.memory_flow.table:RawMemoryFlow",
        made="tb_plugin.model.memory_flow.table:MemoryFlow",
    ),
    ModelEntry(
        "flight_recorder",
        "flight",
        "a dump of a flight recorder",
        "collectives",
        raw="tb_plugin.model.flight_recorder.table:RawFlight",
        made="tb_plugin.model.flight_recorder.table:Flight",
    ),
    ModelEntry(
        "stack_profile",
        "stack_profile",
        "a file of stacks",
        "stack_profile",
        raw="tb_plugin.model.stack_profile.table:StackProfile",
        made="tb_plugin.model.stack_profile.table:StackProfile",
    ),
    ModelEntry(
        "execution_trace",
        "execution_trace",
        "an execution trace",
        "execution_nodes",
        raw="tb_plugin.model.execution_trace.table:ExecutionTrace",
        made="tb_plugin.model.execution_trace.table:ExecutionTrace",
    ),
    ModelEntry(
        "cluster",
        "cluster",
        "an analysis of a job",
        "cluster",
        raw="tb_plugin.model.cluster.table:Cluster",
        made="tb_plugin.model.cluster.table:Cluster",
    ),
)
