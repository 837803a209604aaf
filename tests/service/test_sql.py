"""Queries over one rank and over all ranks of a run, through HTTP."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.latency import Page

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
QUERY = "select * from ranks"


@pytest.fixture
def page(tmp_path):
    for source in sorted((SAMPLES / "synthetic_ddp").glob("*.json.gz"))[:3]:
        shutil.copy(source, tmp_path)
    page = Page(f"run:{tmp_path}")
    run = page.get("runs")["runs"][0]
    page.place = {"run": run["name"], "worker": "rank1", "span": run["workers"][0]["spans"][0]["id"]}
    page.folder = tmp_path
    yield page
    page.plugin.close()


def rows(page, query, **more):
    return page.get("view/sql", {"query": query, **more})["payloads"]["rows"]["rows"]


def test_a_query_is_over_one_rank_or_all_ranks(page):
    (own,) = rows(page, "select sum(dur_ns) as total_ns from kernels")
    every = rows(page, "select rank, sum(dur_ns) as total_ns from kernels group by rank order by rank", ranks="all")
    assert [row["rank"] for row in every] == ["rank0", "rank1", "rank2"]
    assert every[1]["total_ns"] == own["total_ns"]
    assert len(rows(page, QUERY)) == 1
    ranks = rows(page, QUERY, ranks="all")
    workers = page.get("view/distributed")["payloads"]["workers"]["rows"]
    assert {row["rank"]: row["wait_ns"] for row in ranks} == {row["worker"]: row["wait_ns"] for row in workers}
    csv = page.get("table/sql/rows", {"query": "select rank from steps", "ranks": "all", "format": "csv"})
    assert len(csv.decode().splitlines()) == 1 + 3 * 3


def test_an_unreadable_rank_is_skipped_and_named(page):
    (damaged,) = page.folder.glob("*rank2*")
    damaged.write_bytes(b"no trace")
    page.plugin.close()
    again = Page(f"run:{page.folder}", page.place)
    view = again.get("view/sql", {"query": QUERY, "ranks": "all"})["payloads"]
    assert [row["rank"] for row in view["rows"]["rows"]] == ["rank0", "rank1"]
    assert "rank2" in str(view["data_quality"]["notices"])
    again.plugin.close()


def test_coverage_is_the_whole_recording(page):
    step = page.get("profile")["steps"][0]["label"]
    view = page.get("view/sql", {"query": "select count(*) as n from steps", "steps": step})
    assert view["coverage"]["steps"] is None
    assert view["payloads"]["rows"]["rows"][0]["n"] == 3


def test_titles_of_times_have_the_unit_that_the_page_shows(page):
    view = page.get("view/sql", {"query": "select dur_ns, event from kernels limit 2"})
    titles = [column["metric"]["title"] for column in view["payloads"]["rows"]["columns"]]
    assert titles[:2] == ["dur", "event"]
