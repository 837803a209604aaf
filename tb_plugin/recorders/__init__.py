"""Tools that record traces, as data. Readers put the one that wrote a file into its trace; nothing after them knows it."""

from __future__ import annotations

from tb_plugin.recorders.megengine import MEGENGINE
from tb_plugin.recorders.pytorch import PYTORCH, PYTORCH_LEGACY, PYTORCH_PACKETS
from tb_plugin.recorders.torch_npu import TORCH_NPU
from tb_plugin.trace.recorder import Recorder

RECORDERS: tuple[Recorder, ...] = (PYTORCH, PYTORCH_LEGACY, PYTORCH_PACKETS, TORCH_NPU, MEGENGINE)

__all__ = ["MEGENGINE", "PYTORCH", "PYTORCH_LEGACY", "PYTORCH_PACKETS", "RECORDERS", "TORCH_NPU"]
