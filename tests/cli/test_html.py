"""``--html``: one file from ``torch-trace report`` and ``torch-trace diff``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tb_plugin.cli import main
from tb_plugin.service.html_report import write

DATA = re.compile(r'<script type="application/json" id="report">(.*?)</script>', re.DOTALL)


@pytest.fixture(autouse=True)
def template(tmp_path, monkeypatch):
    path = tmp_path / "template.html"
    path.write_bytes(b'<script type="application/json" id="report">' + write.PLACEHOLDER + b"</script>")
    monkeypatch.setattr(write, "TEMPLATE", path)


def data_of(path: Path) -> dict:
    found = DATA.search(path.read_text(encoding="utf-8"))
    assert found
    return json.loads(found[1])


def test_a_report_is_about_the_chosen_profile_and_steps(tmp_path, capsys):
    target = tmp_path / "out.html"
    arguments = ["--worker", "rank2", "--steps", "1", "--top", "3", "--html", str(target)]
    assert main(["report", "samples/synthetic_ddp", *arguments]) == 0
    assert capsys.readouterr().out.startswith(f"{target}: ")
    data = data_of(target)
    assert (data["profile"]["worker"], data["steps"], data["other_profiles"]) == ("rank2", "1", 3)
    (step,) = (step for step in data["profile"]["steps"] if step["label"] == "1")
    head = data["timeline"]["head"]
    assert (head["start_ns"], head["end_ns"]) == (step["start_ns"], step["end_ns"])
    views = {view["id"]: view["view"] for view in data["views"]}
    assert len(views["kernels"]["payloads"]["kernels"]["rows"]) == 3
    assert views["distributed"]["payloads"]["verdict"] and "diff" not in views
    assert views["whatif"]["payloads"]["answer"]["notices"][0]["text"].endswith(
        "Waits for other ranks stay as recorded."
    )


def test_a_diff_has_a_comparison(tmp_path, capsys):
    target = tmp_path / "out.html"
    sample = "samples/synthetic_ddp"
    workers = ["--base-worker", "rank0", "--worker", "rank2"]
    assert main(["diff", sample, sample, *workers, "--html", str(target)]) == 0
    data = data_of(target)
    assert "rank0" in data["compared_with"] and data["profile"]["worker"] == "rank2"
    (diff,) = (view["view"] for view in data["views"] if view["id"] == "diff")
    assert main(["diff", sample, sample, *workers, "--format", "json"]) == 0
    expected = json.loads(capsys.readouterr().out.partition("\n")[2])["waterfall"]
    parts = [part["value"] for part in diff["payloads"]["waterfall"]["parts"]]
    assert sum(parts) == expected["delta_ns"]
    assert sorted(filter(None, parts)) == sorted(filter(None, expected["parts"].values()))


@pytest.mark.parametrize("sample", ["synthetic_memory", "flight_recorder_gloo", "execution_trace_cpu", "jax_cpu"])
def test_every_kind_of_profile_has_a_report(sample, tmp_path, capsys):
    target = tmp_path / "out.html"
    assert main(["report", f"samples/{sample}", "--html", str(target), "--redact"]) == 0
    data = data_of(target)
    assert any(view["view"] for view in data["views"]) and data["is_redacted"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--redact"], "Add --html FILE"),
        (["--html", "x.html", "--brief"], "Leave out --format, --view, --brief"),
        (["--html", "x.html", "--format", "json"], "Leave out --format"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments, message, capsys):
    assert main(["report", "samples/resnet_cpu", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_reported(tmp_path, capsys):
    assert main(["report", "samples/resnet_cpu", "--html", str(tmp_path / "none" / "x.html")]) == 3
    assert "cannot be written" in capsys.readouterr().err
