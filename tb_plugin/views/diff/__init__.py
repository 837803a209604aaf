"""The view ``diff``."""

from __future__ import annotations

from types import MappingProxyType

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry

BORROWED = MappingProxyType(
    {
        "overview": ("steps", "configuration"),
        "operators": ("operators", "operators_by_shape"),
        "kernels": ("kernels", "kernels_by_type", "kernels_by_type_shape"),
        "modules": ("modules",),
        "launches": ("runtime_calls",),
        "serving": ("serving_modes",),
    }
)

VIEW = ViewEntry(
    __name__,
    "diff",
    "Diff",
    order=320,
    model=TRACE,
    traits=Traits("Compare", whole="It compares whole steps of two profiles."),
    scope="pair",
    borrows=BORROWED,
)
