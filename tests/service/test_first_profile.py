"""The profile that opens first, and the titles of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tb_plugin.service.discovery.title_file import NAME, Title, parse
from tests.samples import SAMPLES
from tests.service.fakes import catalog_of, event

KERNEL = {"deviceProperties": [{"id": 0}]}


def write(path: Path, **head: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schemaVersion": 1, **head, "traceEvents": [event("aten::mm", 1, 2)]}))


def first(logs: Path) -> tuple[str, str, str] | None:
    catalog = catalog_of(logs)
    catalog.scan()
    found = catalog.payload().first
    return None if found is None else (found.run, found.worker, found.span)


NEW, OLD, OLDEST = "1795200788569794381", "1795200688569794381", "1795200588569794381"


def test_the_newest_recording_with_device_work_opens_first(tmp_path):
    assert first(tmp_path) is None
    write(tmp_path / "cpu" / f"w.{NEW}.pt.trace.json", deviceProperties=[])
    assert first(tmp_path) == ("cpu", "w", "1")
    write(tmp_path / "gpu" / f"w.{OLDEST}.pt.trace.json", **KERNEL)
    assert first(tmp_path) == ("gpu", "w", "1")
    write(tmp_path / "gpu" / f"w.{OLD}.pt.trace.json", **KERNEL)
    assert first(tmp_path) == ("gpu", "w", "2"), "the newest recording of the run"
    write(tmp_path / "other" / f"rank1.{NEW}.pt.trace.json", **KERNEL)
    write(tmp_path / "other" / f"rank0.{NEW[:-9]}000000000.pt.trace.json", **KERNEL)
    assert first(tmp_path) == ("other", "rank0", "1"), "the first rank, although it started earlier"


def test_a_graph_capture_does_not_open_first(tmp_path):
    write(tmp_path / "serve" / f"w.{OLD}.pt.trace.json", **KERNEL)
    write(tmp_path / "serve" / "capture_traces" / f"bs_8.{NEW}.pt.trace.json", **KERNEL)
    assert first(tmp_path) == ("serve", "w", "1")


def test_a_file_without_a_time_has_its_modification_time(tmp_path):
    write(tmp_path / "named" / "w.1595200788569794381.pt.trace.json", **KERNEL)
    write(tmp_path / "exported" / "trace.json", **KERNEL)
    assert first(tmp_path)[0] == "exported"


def test_a_device_event_in_the_head_counts(tmp_path):
    write(tmp_path / "cpu" / f"w.{NEW}.pt.trace.json")
    body = {"schemaVersion": 1, "traceEvents": [event("k", 1, 2, cat="kernel")]}
    path = tmp_path / "gpu" / f"w.{OLD}.pt.trace.json"
    path.parent.mkdir()
    path.write_text(json.dumps(body))
    assert first(tmp_path) == ("gpu", "w", "1")


def test_titles_and_marks(tmp_path):
    write(tmp_path / "a" / f"w.{NEW}.pt.trace.json", **KERNEL)
    write(tmp_path / "b" / f"w.{OLD}.pt.trace.json")
    write(tmp_path / "c" / f"w.{OLDEST}.pt.trace.json")
    (tmp_path / NAME).write_text("a: (invented) <b>A</b>\nb: B: the second")
    catalog = catalog_of(tmp_path)
    catalog.scan()
    payload = catalog.payload()
    assert [(run.name, run.title, run.is_invented) for run in payload.runs] == [
        ("a", "<b>A</b>", True), ("b", "B: the second", False), ("c", "", False)
    ]  # fmt: skip
    assert payload.first is not None and payload.first.run == "b", "an invented run never opens first"
    assert payload.skipped == []
    (tmp_path / NAME).write_text("c: (first) C")
    catalog.scan()
    assert catalog.payload().first.run == "c"


@pytest.mark.parametrize(
    ("line", "names", "title"),
    [
        ("a: (first) (invented) Both", ("a",), Title("Both", True, True)),
        ("night/*: Of the night", ("night/1",), Title("Of the night")),
        ("a b : With spaces # and a comment", ("a b",), Title("With spaces")),
        ("a:no space", ("a",), Title()),
        ("logs/a: x", ("logs/a", "a"), Title("x")),
        ("a: (first)", ("a",), Title("", True)),
    ],
)
def test_a_line(line, names, title):
    assert parse(line.encode(), "here").of(*names) == title


def test_every_sample_has_a_title():
    catalog = catalog_of(SAMPLES)
    catalog.scan()
    payload = catalog.payload()
    assert payload.first is not None and payload.first.run == "resnet_cpu"
    assert [run.name for run in payload.runs if not run.title] == []
    assert {run.name for run in payload.runs if run.is_invented} == {
        r.name for r in payload.runs if "synthetic" in r.name
    }
