"""Who is answered: no page of another site, and where the person says so only the server's own names."""

from __future__ import annotations

import pytest
from werkzeug.test import Client

from tb_plugin.web.request_guard import HOSTS_VARIABLE, Forbidden, check_host
from tb_plugin.web.routes import BASE, Routes
from tests.service.fakes import workspace_of, write_trace

DATA = ["runs", "profile", "view/overview", "table/operators/operators", "tiles?tiles=0.0", "download/original",
        "download/window", "download/stacks"]  # fmt: skip


@pytest.fixture
def workspace(tmp_path):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    with workspace_of(tmp_path / "logs", tmp_path / "cache") as workspace:
        yield workspace


@pytest.fixture
def client(workspace):
    return Client(Routes(lambda: workspace))


@pytest.mark.parametrize("route", DATA)
def test_a_page_of_another_site_starts_nothing(client, workspace, route):
    for method in (client.get, client.head):
        answer = method(BASE + route, headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code == 403
    assert answer.content_type == "application/json"
    assert all(entry.state == "found" for entry in workspace.catalog.entries())


@pytest.mark.parametrize("site", [None, "same-origin", "same-site", "none"])
def test_our_own_page_and_programs_are_answered(client, site):
    headers = {} if site is None else {"Sec-Fetch-Site": site}
    assert client.get(BASE + "runs", headers=headers).status_code == 200


def test_the_page_itself_may_be_embedded(client):
    """An editor or a notebook shows TensorBoard in a frame: loading it is a navigation across sites."""
    assert client.get(BASE + "index.html", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


@pytest.mark.parametrize("route", ["runs", "index.html"])
def test_only_the_names_that_are_allowed(client, monkeypatch, route):
    assert client.get(BASE + route, headers={"Host": "evil.example:6006"}).status_code == 200
    monkeypatch.setenv(HOSTS_VARIABLE, "localhost, ::1,.Lab.example")
    for host in ("localhost", "LOCALHOST:6006", "[::1]:6006", "gpu7.lab.example"):
        assert client.get(BASE + route, headers={"Host": host}).status_code == 200, host
    for host in ("evil.example:6006", "localhost.evil.example", "lab.example", "127.0.0.1", ""):
        answer = client.get(BASE + route, headers={"Host": host})
        assert answer.status_code == 403, host
        assert HOSTS_VARIABLE in answer.get_json()["error"]["do"]


def test_a_request_without_a_name_is_none_of_the_allowed():
    check_host({})
    with pytest.raises(Forbidden):
        check_host({}, "localhost")
