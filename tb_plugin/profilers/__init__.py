"""Profilers, as data.

A trace refers to the profiler that recorded it, so other code needs no profiler names.
"""

from __future__ import annotations

from tb_plugin.extensions import extension_modules, extension_names
from tb_plugin.lib.lazy import load_object
from tb_plugin.model.trace.recorder import Recorder
from tb_plugin.profilers.pytorch import PYTORCH, PYTORCH_LEGACY, PYTORCH_PACKETS
from tb_plugin.profilers.torch_npu import TORCH_NPU

RECORDERS: tuple[Recorder, ...] = (PYTORCH, PYTORCH_LEGACY, PYTORCH_PACKETS, TORCH_NPU)

__all__ = ["PYTORCH", "PYTORCH_LEGACY", "PYTORCH_PACKETS", "RECORDERS", "TORCH_NPU", "profiler_by_id", "profilers"]


def profilers() -> tuple[Recorder, ...]:
    """Returns all profilers, built-in ones first. Extensions list theirs as ``module:name`` in ``RECORDERS``."""
    names = (name for module in extension_modules(extension_names()) for name in getattr(module, "RECORDERS", ()))
    return (*RECORDERS, *map(load_object, names))


def profiler_by_id(profiler_id: str) -> Recorder | None:
    """Returns the profiler with this id, None if unknown."""
    built_in = [recorder for recorder in RECORDERS if recorder.id == profiler_id]
    return next((recorder for recorder in built_in or profilers() if recorder.id == profiler_id), None)
