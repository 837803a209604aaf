"""The view ``cluster``."""

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
    traits=Traits("Ranks", whole="The analysis of a job knows no phases.", tables=TABLES),
    http=ViewText(
        payloads=(
            "Of analyses of a job, of all its ranks. `headline` (Figures), `findings` (Notices about `training`: "
            "slow ranks and links, uneven stages), `data_quality` (Notices: what is not stated; absent where "
            "nothing is missing), `rank_times`, `stage_times` (Series, stacked_bars: the mean step; each absent "
            "where nobody states it), `rank_calls` (Series, stacked_bars: what calls of the mean step spend their "
            "time with; absent without calls), `map_link_bandwidth`, `map_link_bytes` (Series, a line for each "
            "rank that sends, x = ranks that receive; absent without links between ranks) and the tables."
        ),
        tables=(
            "`job_steps` (by step and rank, then by stage), `job_communication` (by group and rank), `job_bands` "
            "(by group, rank and kind of link), `job_links` (by pair of ranks, all steps), `job_groups`."
        ),
    ),
)
