"""Torch Trace: where the time and memory of a PyTorch training went.

``tb_plugin.open(path_or_url)`` opens a profile for Python; see tb_plugin/api.py. It is imported when it is first
used, because TensorBoard imports this package at every start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tb_plugin.api import OpenProfile, open

__version__ = "0.1.0"
__all__ = ["OpenProfile", "__version__", "open"]


def __getattr__(name: str) -> Any:
    if name in ("OpenProfile", "open"):
        from tb_plugin import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
