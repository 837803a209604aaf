"""Tools that record traces, as data. Readers put the one that wrote a file into its trace; nothing after them knows it."""

from __future__ import annotations

from tb_plugin.recorders.megengine import MEGENGINE
from tb_plugin.recorders.pytorch import PYTORCH
from tb_plugin.trace.recorder import Recorder

RECORDERS: tuple[Recorder, ...] = (PYTORCH, MEGENGINE)

__all__ = ["MEGENGINE", "PYTORCH", "RECORDERS"]
