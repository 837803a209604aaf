"""Which Perfetto the page is told to open, and the packed window that it hands over."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from werkzeug.test import Client

from tb_plugin.service.perfetto_address import PUBLIC, VARIABLE, perfetto_url
from tb_plugin.web.routes import BASE, Routes
from tests.service.fakes import workspace_of, write_trace


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (None, PUBLIC),
        ("", PUBLIC),
        (" http://localhost:10000 ", "http://localhost:10000"),
        ("https://perfetto.example/ui/", "https://perfetto.example/ui/"),
        ("javascript:alert(1)", ""),
        ("file:///etc", ""),
        ("localhost:10000", ""),
        ("http://", ""),
        ("http://user:secret@host", ""),
        ("http://host:99999", ""),
        ("http://ho st", ""),
    ],
)
def test_only_an_address_is_passed_on(monkeypatch: pytest.MonkeyPatch, text: str | None, url: str) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if text is not None:
        monkeypatch.setenv(VARIABLE, text)
    assert perfetto_url() == url


def test_the_page_learns_it_and_gets_the_whole_trace_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "http://localhost:10000")
    write_trace(tmp_path / "logs" / "a" / "w.1.pt.trace.json")
    with workspace_of(tmp_path / "logs", tmp_path / "cache") as workspace:
        client = Client(Routes(lambda: workspace))
        assert client.get(f"{BASE}runs").get_json()["perfetto_url"] == "http://localhost:10000"
        client.get(f"{BASE}profile")
        answer = client.get(f"{BASE}download/window?packed=1", headers={"Accept-Encoding": "gzip"})
        assert answer.content_type == "application/gzip" and "Content-Encoding" not in answer.headers
        assert 'filename="w.1.pt.trace.window.json.gz"' in answer.headers["Content-Disposition"]
        assert int(answer.headers["Content-Length"]) == len(answer.data)
        names = {event["name"] for event in json.loads(gzip.decompress(answer.data))["traceEvents"]}
        assert {"aten::mm", "aten::add", "ProfilerStep#5", "ProfilerStep#6"} <= names, "all steps, not only the first"
