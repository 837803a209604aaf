"""Cluster: what an analysis of a whole job says of its ranks, stages, groups and links."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tb_plugin.analyses.base import OWN_ONLY, Frame, Missing, Params, Part, Scope, Traits, answer_view
from tb_plugin.analyses.jobs.metrics import METRICS
from tb_plugin.analyses.jobs.slow import findings
from tb_plugin.analyses.jobs.stages import STAGE, stages_of
from tb_plugin.analyses.jobs.steps import rank_means, stage_means, step_bars, step_frame
from tb_plugin.analyses.jobs.traffic import band_frame, communication_frame, link_frame, link_maps, link_totals
from tb_plugin.cluster.table import Cluster
from tb_plugin.payloads import CoverageInfo, Figures, Notice, Notices, Payload, Table, View
from tb_plugin.trace.job_tables import GROUPS, LINKS, SCHEMAS, STEP_TIMES

TABLES = ("job_steps", "job_communication", "job_bands", "job_links", "job_groups")


class ClusterAnalysis:
    """The view of an analysis of a job."""

    id = "cluster"
    title = "Cluster"
    model = Cluster
    traits = Traits("Ranks", whole="The analysis of a job knows no phases.", tables=TABLES)
    scope: Scope = "profile"
    borrows = OWN_ONLY

    def missing(self, cluster: Cluster) -> Missing | None:
        """Returns None: whatever is there is shown."""
        return None

    def part_key(self, params: Params) -> tuple[object, ...]:
        """Depends on nothing."""
        return ()

    def part(self, cluster: Cluster, params: Params) -> Part:
        """Returns times, communication and links of all ranks."""
        tables = {name: cluster.table(name) for name in SCHEMAS}
        times, stages = tables[STEP_TIMES], stages_of(tables)
        ranks, of_stages = rank_means(times), stage_means(times, stages)
        totals = link_totals(tables[LINKS])
        told = findings(ranks, stages, of_stages, totals)
        frames = [
            step_frame(times, stages),
            communication_frame(tables),
            band_frame(tables),
            link_frame(totals),
            _groups(cluster),
        ]
        payloads: dict[str, Payload] = {
            "headline": Figures("headline", "Job", "", [
                METRICS.figure("job_ranks", len(ranks)),
                METRICS.figure("job_stages", len(stages) or None),
                METRICS.figure("job_groups", _count(tables[GROUPS])),
                METRICS.figure("job_calls", _sum(frames[1], "job_calls")),
            ], "headline"),
            "findings": Notices("findings", "Findings", "training", told),
        }  # fmt: skip
        if notes := _notes(cluster):
            payloads["data_quality"] = Notices("data_quality", "About these numbers", "data", notes)
        if ranks:
            payloads["rank_times"] = step_bars("rank_times", "Step time by rank", "mean step", "job_rank", ranks)
        if of_stages:
            text = "the largest time of any of its ranks, each part for itself"
            payloads["stage_times"] = step_bars("stage_times", "Step time by stage", text, "job_stage", of_stages)
        payloads |= {series.name: series for series in link_maps(totals)}
        facts = {"cluster.ranks": len(ranks), "cluster.stages": len(stages)}
        facts |= {f"cluster.{rule}": sum(notice.rule == rule for notice in told) for rule in ("slow_rank", "slow_link")}
        return Part(
            CoverageInfo(complete=cluster.report.complete),
            facts,
            {frame.name: frame for frame in frames},
            payloads,
            (*payloads, *TABLES),
        )

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the page, or one of its tables."""
        return answer_view(self, parts[0], params)


def _groups(cluster: Cluster) -> Frame:
    table = cluster.table(GROUPS)
    data = {
        "members": table["ranks"],
        "group_name": table["name"],
        "group_kind": table["kind"],
        "group": table["group"],
    }
    empty = tuple(key for key, column in data.items() if column.null_count == len(column))
    return Frame(
        "job_groups", "Groups", METRICS.columns(*data, hidden=empty), pa.table(data), ("members", "group"), "members"
    )


def _count(groups: pa.Table) -> int:
    return sum(kind != STAGE for kind in groups["kind"].to_pylist())


def _sum(frame: Frame, key: str) -> int:
    return sum(value or 0 for value in frame.data[key].to_pylist())


def _notes(cluster: Cluster) -> list[Notice]:
    """What there is nothing of, and why."""
    notes = []
    if not cluster.table(STEP_TIMES).num_rows:
        notes.append(Notice("cluster_no_steps", "info", "The analysis states no times of steps.", ""))
    if not cluster.table(LINKS).num_rows:
        notes.append(Notice("cluster_no_links", "info", "The analysis states no links between ranks.", ""))
    return notes
