"""Findings and data notices: the same in JSON of report and diff, in Python, and in words in text output."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import pytest

import tb_plugin
from tb_plugin import cli
from tb_plugin.findings import Finding, data_notices, finding, findings
from tb_plugin.payloads import Figure, Link, Metric, Notice, Notices
from tests.builders import TraceBuilder
from tests.rules.test_memory_and_streams import reserved

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
KEYS = {
    "rule", "severity", "text", "todo", "figures", "measure", "threshold", "evidence", "why", "confidence",
    "saving_low_ns", "saving_high_ns", "saving_shared_ns",
}  # fmt: skip


def event(name, ts, dur, cat="cpu_op"):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}


@pytest.fixture
def slow(tmp_path):
    """Two steps of 100 us that wait 60 us for input."""
    loading = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    events = [
        made
        for start in (0, 100)
        for made in (
            event(f"ProfilerStep#{start // 100}", start, 100, "user_annotation"),
            event(loading, start, 60, "user_annotation"),
            event("aten::mm", start + 60, 40),
        )
    ]
    path = tmp_path / "slow" / "w.1.pt.trace.json.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()))
    return path


def printed(capsys, *arguments):
    assert cli.main([*map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_report_diff_and_python_say_the_same(capsys, slow):
    report = json.loads(printed(capsys, "report", slow, "--format", "json"))
    diff = json.loads(printed(capsys, "diff", slow, slow, "--format", "json"))
    profile = tb_plugin.open(slow)
    (one,) = report["profiles"]
    assert (report["schema_version"], diff["schema_version"]) == (3, 4)
    (found,) = one["findings"]
    assert found == {
        "rule": "data_loading",
        "severity": "high",
        "text": "Data loading takes 60.0 µs of 100 µs per step. The data loader workers are too slow.",
        "todo": found["todo"],
        "figures": [
            {"key": "waiting_for_input", "title": "Data loading", "unit": "ratio", "value": 0.6},
            {"key": "dataloader_mean_ns", "title": "Data loading", "unit": "ns", "value": 60_000.0},
            {"key": "step_time_mean_ns", "title": "Step time", "unit": "ns", "value": 100_000.0},
        ],
        "measure": "waiting_for_input",
        "threshold": 0.02,
        "evidence": {
            "view": "timeline",
            "parameters": {"event": "1", "start_ns": "0", "end_ns": "90000"},
            "events": [1, 4],
            "window": {"start_ns": 0, "end_ns": 90_000},
        },
        "why": found["why"],
        "confidence": "medium",
        "saving_low_ns": 43_650.0,
        "saving_high_ns": 60_000.0,
        "saving_shared_ns": 0.0,
    }
    assert {notice["rule"] for notice in one["data_notices"]} >= {"shapes_missing", "stacks_missing", "memory_missing"}
    for key in ("findings", "data_notices"):
        assert diff["baseline"][key] == diff["experiment"][key] == one[key]
        assert msgspec.to_builtins(getattr(profile, key)) == one[key]
    assert [found["rule"] for found in diff["findings"]] == ["same_step_time"]
    assert all(set(found) == KEYS for found in (*one["findings"], *one["data_notices"], *diff["findings"]))
    text = printed(capsys, "report", slow)
    assert f"[high, saves 43.7 to 60.0 µs per step, 60.0 %] {found['text']} {found['todo']}" in text
    assert all(f"[{notice['severity']}] {notice['text']}" in text for notice in one["data_notices"])


def test_the_log_directory_leaves_findings_out_for_all(capsys, slow):
    logs = slow.parent.parent
    (logs / "torch_trace_ignore").write_text("sl*w data_loading  # the loader is known\nelse* communication\n")
    (one,) = json.loads(printed(capsys, "report", logs, "--format", "json"))["profiles"]
    assert (one["findings"], one["dismissed"]) == ([], ["data_loading"])
    assert one["facts"]["findings.data_loading.saving_high_ns"] == one["facts"]["findings.count"] == 0
    assert (one["tables"]["savings"], one["tables"]["finding_events"]) == ([], [])
    assert tb_plugin.open(logs).findings == []
    diff = json.loads(printed(capsys, "diff", logs, slow, "--format", "json"))
    assert (diff["baseline"]["findings"], diff["baseline"]["dismissed"]) == ([], ["data_loading"])
    assert [found["rule"] for found in diff["experiment"]["findings"]] == ["data_loading"], (
        "a file alone has no directory"
    )
    assert diff["experiment"]["dismissed"] == []
    text = printed(capsys, "report", logs, "--view", "findings")
    assert "Dismissed by torch_trace_ignore\n[high] Data loading takes" in text and "saves" not in text


def test_they_are_there_whatever_view_is_asked_for(capsys, slow):
    whole = json.loads(printed(capsys, "report", slow, "--format", "json"))["profiles"][0]
    part = json.loads(printed(capsys, "report", slow, "--format", "json", "--view", "operators"))["profiles"][0]
    assert part["findings"] == whole["findings"] and part["data_notices"] == whole["data_notices"]
    assert all(name.startswith("operators.") for name in part["facts"])


def test_a_job_has_findings_too(capsys):
    document = json.loads(printed(capsys, "report", SAMPLES / "synthetic_ddp", "--format", "json"))
    (group,) = document["groups"]
    assert set(group) == {"run", "span", "facts", "workers", "findings", "data_notices", "tables"}
    assert all(set(found) == KEYS and "{" not in found["text"] for found in group["findings"])


def notice(rule, text, value=0.5):
    figure = Figure(Metric("share", "Share", "ratio", "A share."), value)
    link = Link("events", {"event": "7", "start_ns": "5", "end_ns": "9", "where": "name:a"}, "Show")
    return Notice(rule, "low", text, "", [figure], evidence=link)


def test_evidence_names_events_and_window():
    found = finding(notice("r", "{share} of it; {other} stays"))
    assert found.text == "50.0 % of it; {other} stays"
    assert msgspec.to_builtins(found.evidence) == {
        "view": "events",
        "parameters": {"event": "7", "start_ns": "5", "end_ns": "9", "where": "name:a"},
        "events": [7],
        "window": {"start_ns": 5, "end_ns": 9},
    }


def test_what_several_views_say_is_said_once():
    payloads = [Notices(name, "N", "training", [notice("r", "{share}")]) for name in ("a", "b")]
    payloads.append(Notices("c", "N", "training", [notice("r", "{share}", 0.25), notice("s", "{share}")]))
    payloads.append(Notices("d", "N", "data", [notice("d", "{share}")]))
    assert [(found.rule, found.text) for found in findings(payloads)] == [
        ("r", "50.0 %"),
        ("r", "25.0 %"),
        ("s", "50.0 %"),
    ]
    assert [found.rule for found in data_notices(payloads)] == ["d"]
    assert Finding.__struct_fields__[:2] == ("rule", "severity")


def swinging() -> TraceBuilder:
    """Of 16 GiB a device reserves 4 and gives 2 of them back three times, with calls of the driver, in a step of 1 ms."""
    builder = reserved(4, 2, 4, 2, 4, 2, 4)
    for at in (300, 500, 700):
        builder.call(at, 60, name="cudaFree").call(at + 80, 60, name="cudaMalloc")
    return builder


def test_what_a_rule_and_its_view_both_say_is_said_once(capsys, tmp_path):
    """Memory that is unused, memory that comes and goes, and driver calls: the Memory view says each of them as well."""
    path = tmp_path / "worker0.pt.trace.json"
    path.write_bytes(swinging().bytes())
    (one,) = json.loads(printed(capsys, "report", path, "--format", "json"))["profiles"]
    rules = [found["rule"] for found in one["findings"]]
    for rule in ("memory_unused", "reserved_oscillation", "driver_memory_calls"):
        assert rules.count(rule) == 1, rule
    memory = json.loads(printed(capsys, "report", path, "--view", "memory", "--format", "json"))["profiles"][0]
    assert memory["findings"] == one["findings"]


def test_the_number_of_findings_is_that_of_the_list(capsys, tmp_path, slow):
    """Views have findings of their own: here of memory that is reserved and never allocated."""
    path = tmp_path / "worker0.pt.trace.json"
    path.write_bytes(swinging().bytes())
    (one,) = json.loads(printed(capsys, "report", path, "--format", "json"))["profiles"]
    assert one["facts"]["findings.count"] == len(one["findings"])
    assert "memory_fragmentation" in {found["rule"] for found in one["findings"]}
    profile = tb_plugin.open(path)
    assert profile.facts["findings.count"] == len(profile.findings) == len(one["findings"])
    diff = json.loads(printed(capsys, "diff", slow, path, "--format", "json"))
    assert (diff["facts"]["findings.count"]["baseline"], diff["facts"]["findings.count"]["experiment"]) == (
        len(diff["baseline"]["findings"]),
        len(diff["experiment"]["findings"]),
    )


def test_devices_are_told_apart(capsys, tmp_path):
    path = tmp_path / "worker0.pt.trace.json"
    path.write_bytes(reserved(6, device=1, builder=reserved(4)).bytes())
    (one,) = json.loads(printed(capsys, "report", path, "--format", "json"))["profiles"]
    unused = [found for found in one["findings"] if found["rule"] == "memory_unused"]
    devices = [next(f["value"] for f in found["figures"] if f["key"] == "device") for found in unused]
    assert devices == ["cuda:1", "cuda:0"], "the one with least room first, which the rule names; each once"
