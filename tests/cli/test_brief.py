"""``torch-trace report --brief``: one short answer, with the numbers of the full report."""

from __future__ import annotations

import json

import pytest

from tb_plugin.brief import MAX_BYTES, fitting
from tb_plugin.cli import main

PATHS = ["synthetic_ddp", "resnet_cpu", "synthetic_memory", "synthetic_serving", "synthetic_ascend", "megengine_cpu",
         "flight_recorder_gloo", "execution_trace_cpu", "export_stacks_cpu", "no_steps_cpu", "jax_cpu"]  # fmt: skip


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["report", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", PATHS)
def test_it_has_the_findings_of_the_report_in_8_kb(name, capsys):
    path = f"samples/{name}"
    text = printed(capsys, path, "--brief", "--format", "json")
    brief = json.loads(text)
    assert len(text.encode()) <= MAX_BYTES
    assert len(printed(capsys, path, "--brief").encode()) <= MAX_BYTES
    place = ["--run", brief["run"], "--worker", brief["worker"], "--span", brief["span"]]
    whole = json.loads(printed(capsys, path, *place, "--format", "json"))["profiles"][0]
    assert [one["text"][:100] for one in brief["findings"]] == [one["text"][:100] for one in whole["findings"]][:5]
    assert brief["verdict"] or brief["figures"]
    for part in brief["parts"]:
        assert 0 <= part["share"] <= 1


def test_a_job_says_which_rank_is_late(capsys):
    brief = json.loads(printed(capsys, "samples/synthetic_ddp", "--brief", "--format", "json"))
    assert brief["job"][0]["rule"] == "straggler"
    assert "rank2" in brief["job"][0]["text"]
    assert brief["other_profiles"] == 3
    assert "--worker rank0 --span 1" in brief["more"]["one view"]
    assert brief["rows"][0]["name"].startswith("ncclDevKernel_AllReduce")
    assert brief["rows"][0]["total_ns"] == 91_075_271


def test_long_names_do_not_make_it_long(tmp_path, capsys):
    kernels = [
        {"ph": "X", "cat": "kernel", "name": f"k{i}" + "\N{SNOWMAN}" * 5000, "pid": 0, "tid": 7, "ts": 10 * i, "dur": 5}
        for i in range(30)
    ]
    (tmp_path / "w.pt.trace.json").write_text(json.dumps({"traceEvents": kernels}))
    for form in ("json", "markdown"):
        text = printed(capsys, str(tmp_path), "--brief", "--format", form)
        assert len(text.encode()) <= MAX_BYTES


def test_the_least_important_lists_are_shortened_first(capsys):
    brief = json.loads(printed(capsys, "samples/synthetic_ddp", "--brief", "--format", "json"))
    brief["missing"] = ["\N{SNOWMAN}" * 100] * 100
    short = json.loads(fitting(brief, lambda each: json.dumps(each).encode()))
    assert list(short["shortened"]) == ["others", "rows", "missing"]
    assert len(short["missing"]) + short["shortened"]["missing"] == 100
    assert (short["findings"], short["job"]) == (brief["findings"], brief["job"])
    assert 0 < len(short["missing"]) < 100


def test_options_of_views_are_refused(capsys):
    assert main(["report", "samples/resnet_cpu", "--brief", "--view", "operators"]) == 2
    assert "--brief" in capsys.readouterr().err
