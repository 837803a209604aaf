"""Schema of parts, to validate parts from other machines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache

import pyarrow as pa

from tb_plugin.analysis.replicas import FRAME, STATE
from tb_plugin.views.distributed.rank.collective_metadata import MOST_RANKS
from tb_plugin.views.distributed.rank.kernel_times import KERNEL
from tb_plugin.views.distributed.rank.profile import CALL, DEVICE, GROUP, STEP
from tb_plugin.views.distributed.rank.reported import RANK, ROW, SHAPES

# Increment if a number of a part changes its meaning or a bug is fixed: cached summaries are then recomputed. New columns
# change the stamp automatically.
MEANING = 2
# tables that every part has; reported tables and memory are optional
ALWAYS: Mapping[str, Mapping[str, pa.DataType]] = {
    "collectives": CALL,
    "steps": STEP,
    "kernels": {**KERNEL, ROW: pa.int64()},
    "process_groups": GROUP,
    "devices": DEVICE,
}
NEVER_NULL: Mapping[str, tuple[str, ...]] = {
    "collectives": ("call", "collective", "start_ns", "dur_ns", "on_device", "event", "stream"),
    "steps": ("step",),
    "kernels": ("kernel_calls", "kernel_ns"),
    "process_groups": ("group", "group_ranks"),
    "devices": ("device",),
    RANK: ("alone", "kernels_missing", "ranks_at_least"),
    FRAME: tuple(STATE),
}

# ranges of the facts of a part; a fact may be None
FACTS: Mapping[str, tuple[int, int]] = {
    "distributed.rank": (0, MOST_RANKS - 1),
    "distributed.world_size": (0, MOST_RANKS - 1),
    "distributed.calls": (0, 2**62),
    "distributed.base_time_ns": (-(2**62), 2**62),
}


@cache
def part_shapes() -> Mapping[str, pa.Schema]:
    """Returns the schema of each table of a part.

    This function must not create arrays. The first array makes pyarrow import pandas, and TensorBoard's process
    should not load pandas.
    """
    stated = {name: {**columns, ROW: pa.int64()} for name, columns in SHAPES.items()}
    every = {**ALWAYS, **stated, FRAME: STATE}
    return {name: pa.schema(list(columns.items())) for name, columns in every.items()}


@cache
def schema_hash() -> str:
    """Returns a hash that changes if the schema or MEANING changes."""
    text = [f"meaning {MEANING}"]
    for name, schema in sorted(part_shapes().items()):
        text += [name, *(f"{field.name} {field.type}" for field in schema)]
    return hashlib.blake2b("\n".join(text).encode(), digest_size=8).hexdigest()
