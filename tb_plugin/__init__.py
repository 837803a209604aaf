"""Torch Trace: analysis of time and memory in PyTorch training.

``tb_plugin.open(path_or_url)`` opens a profile (tb_plugin/api.py). ``tb_plugin.annotate(model)``,
``tb_plugin.profile(directory)`` and ``tb_plugin.record.on_demand(directory)`` help to record a trace
(tb_plugin/record.py). These functions are imported at first use, because TensorBoard imports this package at every
start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tb_plugin.api import OpenProfile, open
    from tb_plugin.record import annotate, profile

__version__ = "0.1.0"
__all__ = ["OpenProfile", "__version__", "annotate", "open", "profile"]


def __getattr__(name: str) -> Any:
    if name in ("OpenProfile", "open"):
        from tb_plugin import api

        return getattr(api, name)
    if name in ("annotate", "profile", "record"):
        import importlib

        record = importlib.import_module("tb_plugin.record")
        return record if name == "record" else getattr(record, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
