"""The catalog that is kept: encoded when something changed, and not when somebody asks."""

from __future__ import annotations

import gzip
import json

import pytest
from werkzeug.test import Client
from werkzeug.wrappers import Response

from tb_plugin.service.catalog import Place, pause_seconds
from tb_plugin.web import catalog_cache
from tb_plugin.web.routes import BASE, Routes
from tests.service.fakes import workspace_of, write_trace


@pytest.fixture
def logs(tmp_path):
    for worker in ("a", "b"):
        write_trace(tmp_path / "logs" / f"{worker}.1.pt.trace.json")
    return tmp_path / "logs"


@pytest.fixture
def workspace(logs, tmp_path, monkeypatch):
    with workspace_of(logs, tmp_path / "cache") as workspace:
        monkeypatch.setattr(workspace.catalog, "start", lambda: None)
        workspace.catalog.scan()
        yield workspace


@pytest.fixture
def encoded(monkeypatch):
    """How often the catalog was encoded."""
    made = []

    def to_json(payload, real=catalog_cache.to_json):
        made.append(payload)
        return real(payload)

    monkeypatch.setattr(catalog_cache, "to_json", to_json)
    return made


def names(response):
    text = gzip.decompress(response.data) if response.content_encoding else response.data
    return [worker["name"] for run in json.loads(text)["runs"] for worker in run["workers"]]


def test_an_unchanged_catalog_is_encoded_once(workspace, encoded):
    client = Client(Routes(lambda: workspace), Response)
    first = client.get(f"{BASE}runs")
    tag = first.headers["ETag"]
    for _ in range(3):
        workspace.catalog.scan()
        assert client.get(f"{BASE}runs").data == first.data
        assert client.get(f"{BASE}runs", headers={"If-None-Match": tag}).status_code == 304
    assert len(encoded) == 1


def test_every_change_is_seen_at_once(workspace, logs, encoded):
    client = Client(Routes(lambda: workspace), Response)
    tags = [client.get(f"{BASE}runs").headers["ETag"]]
    workspace.load(Place("logs", "a"))
    tags.append(client.get(f"{BASE}runs").headers["ETag"])
    write_trace(logs / "c.1.pt.trace.json")
    workspace.catalog.scan()
    answer = client.get(f"{BASE}runs")
    tags.append(answer.headers["ETag"])
    assert names(answer) == ["a", "b", "c"]
    (logs / "b.1.pt.trace.json").unlink()
    workspace.catalog.scan()
    assert names(client.get(f"{BASE}runs")) == ["a", "c"]
    (logs / "a.1.pt.trace.json").unlink()
    workspace.catalog.scan()
    answer = client.get(f"{BASE}runs")
    tags.append(answer.headers["ETag"])
    assert names(answer) == ["a", "c"], "what was read of it is still shown"
    assert len(set(tags)) == len(tags)


def test_while_something_loads_its_progress_is_encoded_again_in_a_tenth_of_the_time(workspace, encoded):
    holder = catalog_cache.CatalogCache()
    entry = workspace.catalog.find(Place("logs", "a"))
    load = entry.begin()
    holder.of(workspace)
    assert holder._until < float("inf")
    holder._until = 0.0
    holder.of(workspace)
    entry.release(load)
    holder.of(workspace)
    assert holder._until == float("inf")
    holder.of(workspace)
    assert len(encoded) == 3


def test_a_scan_rests_by_the_work_that_it_made():
    assert pause_seconds(took=0.01, worked=0.01) == pytest.approx(0.5)
    assert pause_seconds(took=0.3, worked=0.2) == pytest.approx(10.0), "two hundredths of a core"
    assert pause_seconds(took=3.0, worked=0.0) == 8.0, "a slow store, and no work"
    assert pause_seconds(took=9.0, worked=9.0) == 30.0
