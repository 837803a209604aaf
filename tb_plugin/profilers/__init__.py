"""Profilers, as data.

A trace refers to the profiler that recorded it, so other code needs no profiler names.
"""

from __future__ import annotations

from tb_plugin.model.trace.recorder import Recorder
from tb_plugin.profilers.megengine import MEGENGINE
from tb_plugin.profilers.pytorch import PYTORCH, PYTORCH_LEGACY, PYTORCH_PACKETS
from tb_plugin.profilers.torch_npu import TORCH_NPU

RECORDERS: tuple[Recorder, ...] = (PYTORCH, PYTORCH_LEGACY, PYTORCH_PACKETS, TORCH_NPU, MEGENGINE)

PARTIAL = frozenset({MEGENGINE.id})
"""Ids of profilers that have advice for some rules only. All other profilers have advice for every rule."""

__all__ = [
    "MEGENGINE",
    "PARTIAL",
    "PYTORCH",
    "PYTORCH_LEGACY",
    "PYTORCH_PACKETS",
    "RECORDERS",
    "TORCH_NPU",
    "profiler_named",
]


def profiler_by_id(profiler_id: str) -> Recorder | None:
    """Returns the profiler with this id, None if unknown."""
    return next((recorder for recorder in RECORDERS if recorder.id == profiler_id), None)
