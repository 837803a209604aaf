"""Analyses of jobs: the generated one in its three forms, and the recorded ones where they are."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tb_plugin.analysis.job_tables.stages import ranks_in, ranks_text
from tb_plugin.formats.ascend.cluster.reader import AscendClusterReader
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.model.cluster import Cluster
from tb_plugin.model.trace.job_tables import GROUPS, LINKS, OPERATIONS, SCHEMAS, STEP_TIMES
from tests.conftest import SAMPLES
from tests.formats.ascend.folders import Files
from tests.formats.sources import DATA
from tests.synthetic import loaded

generator = loaded("synthetic_ascend_cluster")
TRUTH = json.loads((SAMPLES / "truth" / "synthetic_ascend_cluster.json").read_text())
RECORDED = DATA / "ascend"
needs_recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="analyses of recorded jobs are in ../shared")


@functools.cache
def content(export: str) -> dict[str, bytes]:
    """The files of an export."""
    made: dict[str, bytes] = generator.WRITERS[export](generator.play(0))
    return made


def cluster(files: dict[str, Any]) -> Cluster:
    """What the reader makes of files; what is no bytes is JSON, text a table."""
    made = {
        name: value
        if isinstance(value, bytes)
        else value.encode()
        if isinstance(value, str)
        else json.dumps(value).encode()
        for name, value in files.items()
    }
    return AscendClusterReader().read(Files(made), ReadOptions(), no_progress)


def recorded(place: str) -> Cluster:
    """An analysis of a recorded job."""
    return cluster({path.name: path.read_bytes() for path in (RECORDED / place).iterdir()})


def together(tables: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    """The tables of several profiles, each about its rank, as those of the job.

    Links within groups lead to ranks of the job where all members say where they stand, or a list does. Of a link that both
    of its ends state, what its source says counts.
    """
    made = {
        name: pa.concat_tables([each[name] for each in tables if name in each])
        for name in SCHEMAS
        if any(name in each for each in tables)
    }
    members = _members(tables)
    made[LINKS] = _of_sources(_in_job(made[LINKS], members))
    groups = {row["group"]: row for row in made[GROUPS].to_pylist()}
    for group, places in members.items():
        groups[group]["ranks"] = ranks_text([places[place] for place in sorted(places)])
    made[GROUPS] = pa.Table.from_pylist(list(groups.values()), made[GROUPS].schema)
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
