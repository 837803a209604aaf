"""Cluster view: ranks, stages, groups and links of a job analysis."""

from __future__ import annotations

from collections.abc import Sequence

from tb_plugin.analysis.base import Params, Part, answer_view
from tb_plugin.analysis.job_tables.metrics import METRICS
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.cluster import Cluster
from tb_plugin.model.trace.job_tables import LINKS, OPERATIONS, STEP_TIMES
from tb_plugin.payloads import CoverageInfo, Figures, Notice, Notices, Payload, Table, View
from tb_plugin.views.cluster import TABLES, VIEW
from tb_plugin.views.cluster.payloads import JobPayloads, job_payloads


class ClusterAnalysis(DeclaredView, entry=VIEW):
    """Displays the results of an analysis of a whole job."""

    def part_key(self, params: Params) -> tuple[object, ...]:
        return ()

    def part(self, cluster: Cluster, params: Params) -> Part:
        """Returns times, communication and links of all ranks."""
        shown = job_payloads(cluster.tables)
        payloads: dict[str, Payload] = {
            "headline": _headline(shown, cluster.table(OPERATIONS).num_rows),
            "findings": Notices("findings", "Findings", "training", shown.findings),
        }
        if notes := _notes(cluster):
            payloads["data_quality"] = Notices("data_quality", "About these numbers", "data", notes)
        payloads |= {series.name: series for series in shown.pictures}
        rules = [notice.rule for notice in shown.findings]
        facts = {"cluster.ranks": shown.ranks, "cluster.stages": len(shown.stages)}
        facts |= {f"cluster.{rule}": rules.count(rule) for rule in ("slow_rank", "slow_link")}
        coverage = CoverageInfo(complete=cluster.report.complete)
        return Part(coverage, facts, shown.frames, payloads, (*payloads, *TABLES))

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        return answer_view(self, parts[0], params)


def _headline(shown: JobPayloads, calls: int) -> Figures:
    figures = [
        *shown.step,
        METRICS.figure("job_ranks", shown.ranks),
        METRICS.figure("job_stages", len(shown.stages) or None),
        METRICS.figure("job_groups", shown.groups),
        METRICS.figure("job_calls", calls),
    ]
    return Figures("headline", "Job", "", figures, "headline")


def _notes(cluster: Cluster) -> list[Notice]:
    notes = []
    if not cluster.table(STEP_TIMES).num_rows:
        notes.append(Notice("cluster_no_steps", "info", "The analysis reports no step times.", ""))
    if not cluster.table(LINKS).num_rows:
        notes.append(Notice("cluster_no_links", "info", "The analysis reports no links between ranks.", ""))
    return notes
