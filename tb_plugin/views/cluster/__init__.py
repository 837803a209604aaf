"""The view ``cluster``."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import CLUSTER, ViewEntry

TABLES = ("job_steps", "job_communication", "job_bands", "job_links", "job_groups")

VIEW = ViewEntry(
    __name__,
    "cluster",
    "Cluster",
    order=270,
    model=CLUSTER,
    traits=Traits("Ranks", whole="The analysis of a job knows no phases.", tables=TABLES),
)
