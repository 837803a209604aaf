"""The view ``snapshot_diff``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import SNAPSHOT, ViewEntry

VIEW = ViewEntry(
    __name__,
    "snapshot_diff",
    "Diff",
    order=330,
    model=SNAPSHOT,
    traits=Traits("Compare", whole="It compares two snapshots."),
    scope="pair",
)
