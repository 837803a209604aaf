"""The command line: exit codes, the JSON that other programs read, and text for people."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from tb_plugin import cli
from tb_plugin.errors import StorageError
from tb_plugin.service.workspace import Workspace
from tests.service.fakes import trace_text, write_trace

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
TABLES = {"steps", "operators", "operators_by_shape", "kernels", "kernels_by_launch", "modules"}


@pytest.fixture
def logs(tmp_path):
    logs = tmp_path / "logs"
    write_trace(logs / "a" / "w.1.pt.trace.json.gz")
    write_trace(logs / "b" / "w.1.pt.trace.json")
    (logs / "config.json").write_text('{"lr": 0.1}')
    return logs


def report(capsys, *arguments):
    code = cli.main(["report", *map(str, arguments), "--format", "json"])
    text = capsys.readouterr().out
    return code, json.loads(text, parse_constant=pytest.fail) if text else None


def test_the_functions_of_stacks_are_printed_where_they_are_asked_for(capsys, logs):
    assert cli.main(["report", str(logs / "a"), "--view", "stacks"]) == 0
    assert "Functions (" in capsys.readouterr().out
    assert cli.main(["report", str(logs / "a")]) == 0
    assert "Functions (" not in capsys.readouterr().out


def test_json_of_one_profile(capsys, logs):
    code, document = report(capsys, logs / "a" / "w.1.pt.trace.json.gz")
    assert code == 0
    assert set(document) == {"schema_version", "profiles", "groups", "failed"}
    assert (document["schema_version"], document["groups"], document["failed"]) == (3, [], [])
    (profile,) = document["profiles"]
    assert set(profile) == {
        "run", "worker", "span", "path", "read", "window", "capture", "phase", "not_limited", "findings", "data_notices",
        "dismissed", "facts", "tables",
    }  # fmt: skip
    assert profile["window"] is None and profile["phase"] is None and profile["not_limited"] == []
    assert (profile["run"], profile["worker"], profile["span"]) == ("a", "w", "1")
    assert profile["path"] == str(logs / "a" / "w.1.pt.trace.json.gz")
    assert profile["read"]["events_in_file"] == 4
    assert profile["facts"]["trace.cpu_ops"] == 2
    assert all(isinstance(value, (int, float, type(None))) for value in profile["facts"].values())
    assert set(profile["tables"]) >= TABLES
    assert {row["name"] for row in profile["tables"]["operators"]} == {"aten::mm", "aten::add"}
    assert profile["tables"]["kernels"] == []


def test_several_profiles_run_in_the_pool(capsys, logs):
    code, document = report(capsys, logs)
    assert code == 0
    assert [profile["run"] for profile in document["profiles"]] == ["a", "b"]


def test_choice(capsys, logs):
    assert [p["run"] for p in report(capsys, logs, "--run", "b")[1]["profiles"]] == ["b"]
    assert report(capsys, logs, "--run", "none")[0] == 3
    assert report(capsys, logs, "--worker", "w", "--span", "2")[0] == 3


def test_view_and_steps(capsys, logs):
    _, document = report(capsys, logs / "a", "--view", "operators", "--steps", "5")
    (profile,) = document["profiles"]
    assert set(profile["tables"]) <= {"operators", "operators_outermost", "operators_by_shape", "stacks"}
    assert [row["name"] for row in profile["tables"]["operators"]] == ["aten::mm"]


def test_a_phase(capsys):
    path, phase = SAMPLES / "synthetic_gpu", "Optimizer.step#AdamW.step"
    (profile,) = report(capsys, path, "--phase", phase, "--view", "kernels", "--view", "memory")[1]["profiles"]
    (whole,) = report(capsys, path, "--view", "kernels")[1]["profiles"]
    assert (profile["phase"], profile["not_limited"]) == (phase, ["memory"])
    assert 0 < profile["facts"]["kernels.calls"] < whole["facts"]["kernels.calls"]
    assert cli.main(["report", str(path), "--phase", phase, "--view", "kernels", "--view", "overview"]) == 0
    text = capsys.readouterr().out
    assert f"Phase: {phase}" in text and f"This view is not limited to the phase {phase}. Overview covers" in text
    assert report(capsys, path, "--phase", "none", "--view", "kernels")[0] == 2
    (apart,) = report(capsys, path, "--pattern", r"[^\s\S]", "--view", "phases")[1]["profiles"]
    assert {"ProfilerStep#0", "ProfilerStep#5"} <= {row["phase"] for row in apart["tables"]["phases"]}


@pytest.mark.parametrize("view", ["graphs", "serving", "compiled", "parallelism", "modules"])
def test_a_view_that_does_not_apply_says_why(capsys, logs, view):
    assert cli.main(["report", str(logs), "--view", view]) == 0
    title = {"graphs": "Graphs: The trace contains no launches of captured graphs."}.get(view, f"{view.capitalize()}: ")
    assert capsys.readouterr().out.count(title) == 2


def test_all_rows_come(capsys, tmp_path):
    write_trace(tmp_path / "x.json", *(f"op{i}" for i in range(1500)))
    _, document = report(capsys, tmp_path / "x.json")
    assert len(document["profiles"][0]["tables"]["operators"]) == 1500


def test_top_limits_the_tables_of_json_as_those_of_text(capsys):
    gpu = SAMPLES / "synthetic_gpu"
    (whole,) = report(capsys, gpu, "--view", "kernels")[1]["profiles"]
    (top,) = report(capsys, gpu, "--view", "kernels", "--top", "3")[1]["profiles"]
    assert {name: len(rows) for name, rows in top["tables"].items()} == {
        name: min(3, len(rows)) for name, rows in whole["tables"].items()
    }
    longest = sorted(whole["tables"]["kernels"], key=lambda row: -row["total_ns"])[:3]
    assert top["tables"]["kernels"] == longest
    assert {**top, "tables": 0} == {**whole, "tables": 0}
    (group,) = report(capsys, SAMPLES / "synthetic_ddp", "--view", "distributed", "--top", "1")[1]["groups"]
    assert len(group["tables"]["clocks"]) == 1 and len(group["workers"]) == 4


def test_json_comes_profile_by_profile(capsysbinary, logs, monkeypatch):
    written = []
    numbers = Workspace.numbers

    def counted(self, *arguments):
        written.append(capsysbinary.readouterr().out)
        return numbers(self, *arguments)

    monkeypatch.setattr(Workspace, "numbers", counted)
    assert cli.main(["report", str(logs), "--format", "json"]) == 0
    written.append(capsysbinary.readouterr().out)
    assert [text[:20] for text in written] == [
        b'{"schema_version":3,',
        b'{"run":"a","worker":',
        b',{"run":"b","worker"',
    ]
    document = json.loads(b"".join(written))
    assert [profile["run"] for profile in document["profiles"]] == ["a", "b"]


def test_one_bad_file_among_good_ones(capsys, logs):
    (logs / "b" / "w.1.pt.trace.json").write_text("no trace")
    code, document = report(capsys, logs)
    assert code == 0
    assert [profile["run"] for profile in document["profiles"]] == ["a"]
    (failed,) = document["failed"]
    assert failed["path"].endswith("b/w.1.pt.trace.json") and failed["reason"]


def test_a_json_that_is_no_trace_is_named(capsys, logs):
    code, document = report(capsys, logs / "config.json")
    assert (code, document["profiles"]) == (3, [])
    (failed,) = document["failed"]
    assert failed["path"] == str(logs / "config.json")
    assert failed["reason"].startswith("The file does not look like a profiler trace.")


def test_exit_codes(capsys, logs, tmp_path):
    assert cli.main(["report", str(tmp_path / "none")]) == 3
    assert "does not exist" in capsys.readouterr().err
    assert cli.main(["report", str(logs), "--view", "none"]) == 2
    assert cli.main(["report", str(logs), "--steps", "99"]) == 2
    assert cli.main(["report", "nosuch://x"]) == 3
    (tmp_path / "empty").mkdir()
    assert cli.main(["doctor", str(tmp_path / "empty")]) == 3
    for usage in ([], ["report"], ["nonsense"], ["report", "x", "--format", "xml"], ["report", "x", "--top", "0"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(usage)
        assert caught.value.code == 2


def test_url(capsys):
    fs = fsspec.filesystem("memory")
    fs.pipe("/cli/w.1.pt.trace.json", trace_text().encode())
    try:
        code, document = report(capsys, "memory://cli")
        assert code == 0 and document["profiles"][0]["path"] == "memory://cli/w.1.pt.trace.json"
    finally:
        fs.rm("/cli", recursive=True)


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_text_for_people(capsys, logs, form):
    write_trace(logs / "a" / "w.1.pt.trace.json.gz", "[bold]|op|\x1b[31m")
    assert cli.main(["report", str(logs), "--format", form, "--top", "3"]) == 0
    text = capsys.readouterr().out
    assert "Operators" in text and "aten::mm" in text
    assert "bold" in text and "\x1b[31m" not in text
    assert ("| --- |" in text) == (form == "markdown")


def test_a_file_that_ends_early_is_called_that(capsys, logs):
    path = logs / "b" / "w.1.pt.trace.json"
    path.write_text(path.read_text()[:-20])
    assert cli.main(["report", str(path)]) == 0
    text = capsys.readouterr().out
    assert "Incomplete: the file is damaged or truncated." in text and "100.0 % of the file" not in text


def test_doctor(capsys, logs):
    cut = (logs / "b" / "w.1.pt.trace.json").read_text()
    (logs / "b" / "w.1.pt.trace.json").write_text(cut[:-20])
    assert cli.main(["doctor", str(logs)]) == 0
    text = capsys.readouterr().out
    assert "3 files scanned, 2 profiles found." in text and "1 file or folder is not a profile." in text
    assert "INCOMPLETE" in text
    assert "config.json" in text and "does not look like a profiler trace" in text


def test_doctor_does_not_tell_to_record_what_may_have_been_cut_off(capsys, tmp_path):
    whole = (SAMPLES / "cuspy_cpu" / "worker0.pftrace.gz").read_bytes()
    (tmp_path / "worker0.pftrace.gz").write_bytes(whole[: len(whole) // 2])
    assert cli.main(["doctor", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert (
        "86 in file, 83 loaded" in text
        and "the missing part may contain the data" in text
        and "ProfilerActivity" not in text
    )


def test_doctor_names_what_cannot_be_read(capsys, logs):
    (logs / "b" / "w.1.pt.trace.json").write_text("no trace")
    cli.main(["doctor", str(logs)])
    out = capsys.readouterr().out
    assert "b/w.1.pt.trace.json" in out[out.index("Unreadable and skipped files") :]
    assert "1 of 2 profiles cannot be read; 1 file or folder is not a profile." in out


def test_module_and_closed_pipe(logs):
    command = f"{sys.executable} -m tb_plugin report {logs / 'a'} --top 1000 | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, env=os.environ | {})
    assert done.stderr == ""


def test_progress_stays_off_a_pipe(logs):
    command = [sys.executable, "-m", "tb_plugin", "report", str(logs), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stderr == "" and json.loads(done.stdout)["profiles"]


@pytest.mark.parametrize("sample", sorted({p.parent.name for p in SAMPLES.glob("*/*.pt.trace.json*")}))
def test_samples(capsys, sample):
    code, document = report(capsys, SAMPLES / sample)
    assert code == 0 and not document["failed"]
    for profile in document["profiles"]:
        assert profile["facts"].get("trace.cpu_ops", 0) > 0 or profile["facts"]["memory.categories.peak_bytes"] > 0


def test_what_is_no_trace_beside_those_of_a_job_is_left_out_of_it(capsys, tmp_path):
    for path in (SAMPLES / "ddp_gloo").iterdir():
        shutil.copy(path, tmp_path)
    span = path.name.split(".")[1]
    shutil.copy(
        SAMPLES / "memory_timeline_cpu" / "worker0.memory_timeline.raw.json.gz",
        tmp_path / f"rank0.{span}.memory.raw.json.gz",
    )
    code, document = report(capsys, tmp_path)
    assert code == 0 and [profile["worker"] for profile in document["profiles"]] == [
        "rank0",
        "rank0.memory.raw",
        "rank1",
    ]
    (group,) = document["groups"]
    assert set(group["workers"]) == {"rank0", "rank1"}
    assert not [finding for finding in group["findings"] if "left out" in finding["text"]]


def test_one_rank_of_many_stands_in_a_group_of_its_own(capsys, tmp_path):
    """Nobody can say who is late, or how long it waited: its tables are there, and what it cannot tell is null."""
    shutil.copy(min((SAMPLES / "synthetic_ddp").glob("*.json*")), tmp_path)
    code, document = report(capsys, tmp_path)
    (group,) = document["groups"]
    (worker,) = group["workers"].values()
    assert code == 0 and worker["wait_ns"] is worker["transfer_ns"] is None and worker["compute_ns"] > 0
    assert len(group["tables"]["collectives"]) == 12 and group["tables"]["stragglers"] == []
    assert all(row["wait_ns"] is row["timing"] is None for row in group["tables"]["collectives"])
    assert "one_worker" in {finding["rule"] for finding in group["findings"]}


def test_a_number_of_the_job_that_the_headline_has_is_printed_once(capsys):
    assert cli.main(["report", str(SAMPLES / "synthetic_ddp"), "--view", "distributed"]) == 0
    text = capsys.readouterr().out
    assert text.count("Cost share  ") == 1 and text.index("Cost share  ") < text.index("Job numbers")
    assert "Worst straggler" in text


def test_a_group_has_the_tables_that_the_docs_name(capsys):
    code, document = report(capsys, SAMPLES / "synthetic_ddp")
    (group,) = document["groups"]
    named = (
        (SAMPLES.parent / "docs" / "command-line.md")
        .read_text()
        .split("`tables` of a group has the keys ")[1]
        .split(".")[0]
    )
    assert code == 0 and set(group["tables"]) == set(re.findall(r"`(\w+)`", named))
    assert group["tables"]["bandwidths"] and all(row["met"] for row in group["tables"]["bandwidths"])


def test_a_group_that_cannot_be_told_says_why(capsys, monkeypatch):
    error = StorageError("The disk is full.", "/cache", "Free some space.")

    def refuse(*asked):
        raise error

    monkeypatch.setattr(Workspace, "group", refuse)
    path, reason = "synthetic_ddp / all workers / span 1", "Ranks: /cache: The disk is full. Free some space."
    code, document = report(capsys, SAMPLES / "synthetic_ddp")
    assert code == 0  # the profiles are reported
    assert len(document["profiles"]) == 4 and document["groups"] == []
    assert document["failed"] == [{"path": path, "reason": reason}]
    for form in ("text", "markdown"):
        assert cli.main(["report", str(SAMPLES / "synthetic_ddp"), "--format", form]) == 0
        assert f"{path}: {reason}\n" in capsys.readouterr().err


def test_what_ranks_state_of_their_communication_stands_in_their_group(capsys):
    code, document = report(capsys, SAMPLES / "synthetic_ascend")
    (group,) = document["groups"]
    assert code == 0 and set(group["workers"]) == {"rank0", "rank1"}
    stated = ("rank_steps", "operation_types", "kinds_of_links", "links")
    assert {name: len(group["tables"][name]) for name in stated} == {
        "rank_steps": 4, "operation_types": 6, "kinds_of_links": 4, "links": 6,
    }  # fmt: skip
    assert sum(row["link_bytes"] for row in group["tables"]["operation_types"]) == sum(
        row["link_bytes"] for row in group["tables"]["kinds_of_links"] if row["link_part_of"] is None
    )


def test_json_of_kernels_of_ranks_has_their_tables_and_sentences(capsys):
    code, document = report(capsys, SAMPLES / "synthetic_ascend", "--view", "ranks_kernels")
    (group,) = document["groups"]
    assert code == 0 and set(group["tables"]) == {"kernels_across_ranks", "kernels_by_rank"}
    assert all(group["tables"].values())
    assert {"kernels_apart", "kernels_differ"} & {finding["rule"] for finding in group["findings"]}
