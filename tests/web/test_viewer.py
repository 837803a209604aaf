"""The server of ``torch-trace view``: it answers who has the token, and no page of another origin."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from urllib.error import HTTPError

import pytest
from werkzeug.test import Client

from tb_plugin.errors import BadRequest
from tb_plugin.web.request_guard import HOSTS_VARIABLE
from tb_plugin.web.viewer import Viewer, start_server
from tests.service.fakes import workspace_of, write_trace
from tests.web.test_origin import DATA


@pytest.fixture
def workspace(tmp_path):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    with workspace_of(tmp_path / "logs", tmp_path / "cache") as workspace:
        yield workspace


@pytest.fixture
def viewer(workspace):
    return Viewer(workspace)


@pytest.mark.parametrize("route", ["", "index.html", "assets/x.js", *DATA])
@pytest.mark.parametrize("token", ["", "wrong", "data/plugin/torch_trace", "\N{LATIN SMALL LETTER U WITH DIAERESIS}"])
def test_nothing_is_answered_without_the_token(viewer, workspace, route, token):
    answer = Client(viewer).get(f"/{token}/{route}")
    assert answer.status_code == 403
    assert "torch-trace view" in answer.text
    assert all(entry.state == "found" for entry in workspace.catalog.entries())


@pytest.mark.parametrize("route", DATA)
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_origin_starts_nothing(viewer, workspace, route, site):
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "cors"}
    for method in (Client(viewer).get, Client(viewer).head):
        assert method(f"/{viewer.token}/{route}", headers=headers).status_code == 403
    assert all(entry.state == "found" for entry in workspace.catalog.entries())


def test_the_page_may_be_shown_in_a_frame_of_a_notebook(viewer):
    headers = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}
    assert Client(viewer).get(f"/{viewer.token}/", headers=headers).status_code == 200


def test_the_token_answers_with_the_page_and_the_data(viewer):
    client = Client(viewer)
    page = client.get(f"/{viewer.token}/")
    assert page.content_type.startswith("text/html")
    assert "default-src 'self'" in page.headers["Content-Security-Policy"]
    runs = client.get(f"/{viewer.token}/runs")
    assert runs.get_json()["runs"]
    assert runs.headers["X-Content-Type-Options"] == "nosniff"
    for answer in (page, runs):  # links of the page do not pass the token on
        assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_a_proxy_with_a_path_of_its_own_keeps_it(viewer):
    answer = Client(viewer).get(f"/{viewer.token}")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{viewer.token}/")


def test_other_methods_and_names_are_refused(viewer, monkeypatch):
    client = Client(viewer)
    for method in (client.post, client.put, client.delete):
        assert method(f"/{viewer.token}/runs").status_code == 405
    monkeypatch.setenv(HOSTS_VARIABLE, "localhost")
    assert client.get(f"/{viewer.token}/runs", headers={"Host": "evil.example"}).status_code == 403


def test_it_listens_on_this_machine_only(viewer):
    server, address = start_server(viewer, 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        assert server.socket.getsockname()[0] == "127.0.0.1"
        with urllib.request.urlopen(f"{address}runs") as answer:
            assert b'"catalog"' in answer.read()
        with pytest.raises(BadRequest, match="port"):
            start_server(viewer, server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    command = [sys.executable, "-m", "tb_plugin", "view", str(tmp_path / "logs"), "--no-browser"]
    environment = os.environ | {"TORCH_TRACE_CACHE": str(tmp_path / "cache")}
    shown = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert shown.stdout is not None
        found = re.search(r"(http://127\.0\.0\.1:[0-9]+/)[\w-]{32}/", shown.stdout.readline())
        assert found is not None
        with urllib.request.urlopen(f"{found[0]}profile") as answer:
            assert answer.status in (200, 202)
        with pytest.raises(HTTPError, match="403"):
            urllib.request.urlopen(f"{found[1]}runs")
        shown.send_signal(signal.SIGINT)
        assert shown.communicate(timeout=20)[1] == ""
        assert shown.returncode == 0
    finally:
        shown.kill()
        shown.communicate()


def test_a_path_without_a_trace_says_why(tmp_path, capsys):
    from tb_plugin.cli import main

    (tmp_path / "notes.txt").write_text("nothing")
    assert main(["view", str(tmp_path), "--no-browser"]) == 3
    assert "No profiler trace was found" in capsys.readouterr().err
