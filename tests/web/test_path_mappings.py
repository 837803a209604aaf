"""TORCH_TRACE_PATHS: pairs of recorded and local folders, and a message for each invalid pair."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from werkzeug.test import Client

from tb_plugin.service import path_mappings
from tb_plugin.web.routes import BASE, Routes
from tests.service.fakes import workspace_of, write_trace


def pairs(text: str, separator: str = ":") -> tuple[list[tuple[str, str]], list[str]]:
    mappings, problems = path_mappings._parsed(text, separator)
    return [(one.recorded, one.local) for one in mappings], [problem.where for problem in problems]


@pytest.mark.parametrize(
    ("text", "separator", "expected"),
    [
        ("", ":", []),
        (" : ", ":", []),
        ("/cluster/src=/home/me/src", ":", [("/cluster/src", "/home/me/src")]),
        ("/a=/b:/c d=/e:", ":", [("/a", "/b"), ("/c d", "/e")]),
        (r"C:\build=/home/me:/b=/c:D:/x=/y", ":", [(r"C:\build", "/home/me"), ("/b", "/c"), ("D:/x", "/y")]),
        (r"/cluster=C:\me;\\nas\src=D:\src", ";", [("/cluster", r"C:\me"), (r"\\nas\src", r"D:\src")]),
        ("/runs/lr=0.1/src=/home/me", ":", [("/runs/lr=0.1/src", "/home/me")]),
    ],
)
def test_pairs_of_all_systems(text: str, separator: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text, separator) == (expected, [])


@pytest.mark.parametrize("bad", ["/cluster/src", "/cluster/src=", "=/home", "src=/home", "/a=src", "/a=/b\x1b[2J"])
def test_an_invalid_pair_is_reported_and_the_others_are_used(bad: str) -> None:
    assert pairs(f"/x=/y:{bad}:/c=/d") == ([("/x", "/y"), ("/c", "/d")], [f"TORCH_TRACE_PATHS: {bad}"])


def test_the_page_gets_pairs_and_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(path_mappings.VARIABLE, os.pathsep.join(["/cluster=/home/me", "oops"]))
    write_trace(tmp_path / "logs" / "a" / "w.1.pt.trace.json")
    with workspace_of(tmp_path / "logs", tmp_path / "cache") as workspace:
        catalog = Client(Routes(lambda: workspace)).get(f"{BASE}runs").get_json()
    assert catalog["path_mappings"] == [{"recorded": "/cluster", "local": "/home/me"}]
    (problem,) = catalog["problems"]
    assert "oops" in problem["where"] and "/cluster/src=/home/me/src" in problem["do"]
