"""Reported links between ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec

from tb_plugin.analysis.job_tables.traffic import MAPS, MOST_DRAWN, LinkTotal, bytes_per_second
from tb_plugin.analysis.metrics import CHOSEN
from tb_plugin.payloads import Line, Series
from tb_plugin.views.distributed.matching.groups import ranks_in
from tb_plugin.views.distributed.metrics import METRICS
from tb_plugin.views.distributed.natural_order import in_order, is_number
from tb_plugin.views.distributed.rank.reported import BETWEEN, MEMBERS, ReportedJob, sum_by_key

Row = dict[str, Any]


class _Ends(msgspec.Struct, frozen=True):
    """Converter from positions in a group to ranks, for the ends of links."""

    rank: Mapping[tuple[str, int], int]
    name: Mapping[str, str]

    @classmethod
    def of(cls, job: ReportedJob) -> _Ends:
        rank: dict[tuple[str, int], int] = {}
        name = {}
        for row in job.tables[MEMBERS].to_pylist():
            group = row["group"]
            if row["name"]:
                name[group] = row["name"]
            listed = ranks_in(row["ranks"] or "")
            if listed.listed and not listed.cut:
                rank |= {(group, place): one for place, one in enumerate(listed.listed)}
            elif row["group_rank"] is not None and row["worker"] in job.ranks:
                rank[group, row["group_rank"]] = job.ranks[row["worker"]]
        return cls(rank, name)

    def label(self, group: str | None, place: int, *, in_group: bool) -> str:
        """Returns the global rank, or the position in the group if the rank is unknown."""
        if not in_group:
            return str(place)
        known = self.rank.get((group or "", place))
        return str(known) if known is not None else f"{place} in {self.title(group)}"

    def title(self, group: str | None) -> str:
        return self.name.get(group or "") or (f"…{group[-3:]}" if group and len(group) > 3 else group or "a group")


def link_rows(job: ReportedJob) -> list[Row]:
    """Returns one row per link, with labels for both ends of the link.

    If both ranks report a link, the report of the sending rank is used.
    """
    ends = _Ends.of(job)
    keys = ("worker", "group", "source", "destination", "in_group", "transport")
    stated: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sum_by_key(job.tables[BETWEEN], keys, ("bytes", "transit_ns")).to_pylist():
        pair = tuple(ends.label(row["group"], row[end], in_group=row["in_group"]) for end in ("source", "destination"))
        stated[pair[0], pair[1]].append(row)
    links: dict[tuple[str, str, str | None, str | None], Row] = {}
    for (source, destination), rows in stated.items():
        own = [row for row in rows if str(job.ranks.get(row["worker"])) == source]
        for row in own or rows:
            group = ends.title(row["group"])
            link = links.setdefault(
                (source, destination, row["transport"], group),
                {"link_from": source, "link_to": destination, "link_kind": row["transport"], "link_group": group,
                 "link_bytes": 0, "link_ns": 0},
            )  # fmt: skip
            link["link_bytes"] += row["bytes"] or 0
            link["link_ns"] += row["transit_ns"] or 0
    for row in links.values():
        row["link_bandwidth"] = bytes_per_second(row["link_bytes"], row["link_ns"])
    return sorted(
        links.values(), key=lambda row: (in_order(row["link_from"]), in_order(row["link_to"]), row["link_group"])
    )


def link_maps(job: ReportedJob) -> list[Series]:
    """Returns a matrix of bandwidth and a matrix of bytes. Rows are senders, and columns are receivers."""
    moved: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in link_rows(job):
        if row["link_from"] != row["link_to"]:
            sums = moved[row["link_from"], row["link_to"]]
            sums[0] += row["link_bytes"]
            sums[1] += row["link_ns"]
    if not moved:
        return []
    ranks = sorted({end for pair in moved for end in pair}, key=in_order)
    sources, places = sorted({pair[0] for pair in moved}, key=in_order), ranks[:MOST_DRAWN]
    subtitle = "from rank (row) to rank (column); copies within a rank are in the table"
    if len(ranks) > MOST_DRAWN:
        subtitle += f"; the first {MOST_DRAWN} of {len(ranks)} ranks"
    maps = []
    for key, title in MAPS.items():
        metric = METRICS.metric(key, window=CHOSEN)
        lines = []
        for source in sources[:MOST_DRAWN]:
            cells = [moved.get((source, place)) for place in places]
            values: list[int | float | None] = [
                None if cell is None else cell[0] if key == "link_bytes" else bytes_per_second(cell[0], cell[1])
                for cell in cells
            ]
            lines.append(
                Line(msgspec.structs.replace(metric, key=source, title=f"Rank {source}"), "communication", values)
            )
        maps.append(Series(f"map_{key}", title, subtitle, METRICS.metric("link_to", "To"), [*places], lines, "lines"))
    return maps


def link_totals(job: ReportedJob) -> list[LinkTotal]:
    """Returns the links whose two ranks are known."""
    found: dict[tuple[int, int, str | None], list[int]] = defaultdict(lambda: [0, 0])
    for row in link_rows(job):
        if is_number(row["link_from"]) and is_number(row["link_to"]):
            sums = found[int(row["link_from"]), int(row["link_to"]), row["link_kind"]]
            sums[0] += row["link_bytes"]
            sums[1] += row["link_ns"]
    return [LinkTotal(*key, *sums) for key, sums in found.items()]
