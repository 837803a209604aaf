"""What is shown of tables about the ranks of a job, whoever states them: an analysis of the job, or each rank of itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analyses.base import Frame
from tb_plugin.analyses.jobs.metrics import METRICS
from tb_plugin.analyses.jobs.slow import findings
from tb_plugin.analyses.jobs.stages import STAGE, Stage, ranks_in, ranks_text, stages_of
from tb_plugin.analyses.jobs.steps import rank_means, stage_means, step_bars, step_frame
from tb_plugin.analyses.jobs.traffic import band_frame, communication_frame, link_frame, link_maps, link_totals
from tb_plugin.payloads import Notice, Series
from tb_plugin.trace.job_tables import GROUPS, LINKS, OPERATIONS, SCHEMAS, STEP_TIMES, job_table

TABLES = ("job_steps", "job_communication", "job_bands", "job_links", "job_groups")
"""Names of the frames, in the order in which they are shown."""

MOST_DRAWN = 1024
"""Ranks of the bars: a page has no room for more rows; the table has all of them."""


@dataclass(frozen=True, eq=False)
class JobShown:
    """Findings, pictures and tables of a job."""

    ranks: int
    """How many ranks state times."""
    stages: tuple[Stage, ...]
    groups: int
    findings: list[Notice]
    pictures: list[Series]
    """Bars by rank and by stage, and maps of links; those of which nothing is stated are not there."""
    frames: dict[str, Frame]


def job_shown(tables: Mapping[str, pa.Table]) -> JobShown:
    """Returns what is shown of tables by the names of ``trace.job_tables``; one that is not there is empty."""
    every = {name: tables.get(name, job_table(name, {})) for name in SCHEMAS}
    times, stages = every[STEP_TIMES], stages_of(every)
    ranks, of_stages = rank_means(times), stage_means(times, stages)
    totals = link_totals(every[LINKS])
    pictures = []
    if ranks:
        text = (
            f"mean step, the first {MOST_DRAWN:,} of {len(ranks):,} ranks" if len(ranks) > MOST_DRAWN else "mean step"
        )
        pictures.append(step_bars("rank_times", "Step time by rank", text, "job_rank", ranks[:MOST_DRAWN]))
    if of_stages:
        text = "the largest time of any of its ranks, each part for itself"
        pictures.append(step_bars("stage_times", "Step time by stage", text, "job_stage", of_stages))
    frames = (
        step_frame(times, stages),
        communication_frame(every),
        band_frame(every),
        link_frame(totals),
        _groups(every[GROUPS]),
    )
    return JobShown(
        len(ranks),
        stages,
        sum(kind != STAGE for kind in every[GROUPS]["kind"].to_pylist()),
        findings(ranks, stages, of_stages, totals),
        [*pictures, *link_maps(totals)],
        {frame.name: frame for frame in frames},
    )


def job_findings(tables: Mapping[str, pa.Table]) -> list[Notice]:
    """Returns what stands out in tables by the names of ``trace.job_tables``: slow ranks and links, uneven stages."""
    times, stages = tables.get(STEP_TIMES, job_table(STEP_TIMES, {})), stages_of(tables)
    links = link_totals(tables.get(LINKS, job_table(LINKS, {})))
    return findings(rank_means(times), stages, stage_means(times, stages), links)


def together(tables: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    """Returns the tables of several profiles, each about its rank, as those of the job.

    A group that several ranks state is one, with its ranks where any of them knows these, or all its members are here. Links
    within groups lead to ranks of the job then. Of a link that both of its ends state, what its source says counts.
    """
    made = {
        name: pa.concat_tables([each[name] for each in tables if name in each])
        for name in SCHEMAS
        if any(name in each for each in tables)
    }
    groups = made.get(GROUPS, job_table(GROUPS, {}))
    if LINKS in made:
        made[LINKS] = _of_sources(_in_job(made[LINKS], _members(tables)))
    if GROUPS in made:
        made[GROUPS] = _each_once(groups, _members(tables))
    return made


def _members(tables: Sequence[Mapping[str, pa.Table]]) -> dict[str, dict[int, int]]:
    """Ranks of the job by group and place in it, as listed, and of the ranks that say where they stand themselves."""
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for each in tables:
        own = _own_rank(each)
        for row in each[GROUPS].to_pylist() if GROUPS in each else ():
            if row["group"] and row["ranks"]:
                found[row["group"]] |= dict(enumerate(ranks_in(row["ranks"])))
            elif row["group"] and row["group_rank"] is not None and own is not None:
                found[row["group"]].setdefault(row["group_rank"], own)
    return found


def _own_rank(tables: Mapping[str, pa.Table]) -> int | None:
    """Whose profile it is: the one rank that its rows are about."""
    ranks = {rank for name in (STEP_TIMES, OPERATIONS, LINKS) if name in tables
             for rank in pc.unique(tables[name]["rank"].drop_null()).to_pylist()}  # fmt: skip
    return next(iter(ranks)) if len(ranks) == 1 else None


def _in_job(links: pa.Table, members: Mapping[str, Mapping[int, int]]) -> pa.Table:
    rows = links.to_pylist()
    for row in rows:
        places = members.get(row["group"] or "", {})
        ends = places.get(row["source"]), places.get(row["destination"])
        if row["in_group"] and None not in ends:
            row["source"], row["destination"], row["in_group"] = *ends, False
    return pa.Table.from_pylist(rows, links.schema)


def _of_sources(links: pa.Table) -> pa.Table:
    rows = links.to_pylist()
    keys = [(row["step"], row["group"], row["source"], row["destination"], row["in_group"]) for row in rows]
    told = {key for key, row in zip(keys, rows, strict=True) if not row["in_group"] and row["rank"] == row["source"]}
    keep = [key not in told or row["rank"] == row["source"] for key, row in zip(keys, rows, strict=True)]
    return links.filter(pa.array(keep, pa.bool_()))


def _each_once(groups: pa.Table, members: Mapping[str, Mapping[int, int]]) -> pa.Table:
    rows: dict[tuple[str | None, str | None], dict[str, object]] = {}
    for row in groups.to_pylist():
        found = rows.setdefault((row["group"], None if row["group"] else row["ranks"]), row | {"group_rank": None})
        for column, value in row.items():
            if found[column] is None and column != "group_rank":
                found[column] = value
    for row in rows.values():
        places = members.get(str(row["group"]), {})
        if row["ranks"] is None and places and sorted(places) == list(range(len(places))):
            row["ranks"] = ranks_text([places[place] for place in sorted(places)])
    return pa.Table.from_pylist(list(rows.values()), groups.schema)


def _groups(table: pa.Table) -> Frame:
    data = {
        "members": table["ranks"],
        "group_name": table["name"],
        "group_kind": table["kind"],
        "group": table["group"],
    }
    empty = tuple(key for key, column in data.items() if column.null_count == len(column))
    columns = METRICS.columns(*data, hidden=empty)
    return Frame("job_groups", "Groups", columns, pa.table(data), ("members", "group"), "members")
