"""Entry of the Cluster view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import CLUSTER, ViewEntry, ViewText

TABLES = ("job_steps", "job_communication", "job_bands", "job_links", "job_groups")

VIEW = ViewEntry(
    __name__,
    "cluster",
    "Cluster",
    order=270,
    model=CLUSTER,
    traits=Traits("ranks", tab="Job tables", phase_note="A job analysis has no phases.", tables=TABLES),
    http=ViewText(
        payloads=(
            "The view shows all ranks of a job analysis. `headline` (Figures), `findings` (Notices about "
            "`training`: slow ranks and links, uneven stages), `data_quality` (Notices: missing data; "
            "absent if complete), `rank_times`, `stage_times` (Series, stacked_bars: the mean step; "
            "absent if unreported), `rank_calls` (Series, stacked_bars: parts of the calls in the mean "
            "step; absent without calls), `map_link_bandwidth`, `map_link_bytes` (Series, a line per "
            "sending rank, x = receiving rank; absent without links between ranks) and the tables."
        ),
        tables=(
            "`job_steps` (by step and rank, then by stage), `job_communication` (by group and rank), "
            "`job_bands` (by group, rank and type of link), `job_links` (by pair of ranks, all steps), "
            "`job_groups`."
        ),
    ),
)
