"""The view ``stack_profile``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import STACK_PROFILE, ViewEntry

VIEW = ViewEntry(
    __name__,
    "stack_profile",
    "Stacks",
    order=120,
    model=STACK_PROFILE,
    traits=Traits("Time", whole="A file of stacks has no phases."),
)
