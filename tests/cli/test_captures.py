"""The capture of replayed graphs in commands and in Python: what lies beside the trace, what is named, and what is wrong."""

import json
from dataclasses import replace

import pytest

import tb_plugin
from tb_plugin import cli
from tests import synthetic_graphs as graphs
from tests.conftest import SAMPLES
from tests.synthetic_graphs import Plan

HIP = Plan(capture="beside", arch="rocm", warm_up=False, replays=2)


def write(plan, folder):
    for file in graphs.generate(plan)[0]:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text())
    return folder


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Right captures beside the trace, and elsewhere a wrong one."""
    folder = tmp_path_factory.mktemp("captures")
    write(HIP, folder / "right")
    write(replace(HIP, wrong="kernel"), folder / "wrong")
    return folder


@pytest.fixture(scope="module")
def trace(logs):
    (path,) = [path for path in (logs / "right").iterdir() if path.is_file()]
    return path


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_report(capsys, logs):
    one = ("--run", "right", "--view", "kernels")
    code, out, _ = run(capsys, "report", logs / "right", *one)
    assert code == 0 and "capture: capture_traces/bs_8/default (in the folder of the trace)" in out
    code, out, _ = run(capsys, "report", logs / "right", *one, "--capture", "none")
    assert (
        code == 0
        and "capture: none; possible captures in the folder of the trace, for --capture: capture_traces/bs_8/default"
        in out
    )
    code, out, _ = run(capsys, "report", logs / "right", *one, "--capture", logs / "wrong" / "capture_traces")
    assert code == 0 and "does not match 1 of the replayed graphs" in " ".join(out.split())
    code, out, err = run(capsys, "report", logs / "right", *one, "--capture", logs / "nothing")
    assert code == 3 and "nothing" in err and not out


def test_report_in_json(capsys, logs, trace):
    code, out, _ = run(capsys, "report", trace, "--format", "json", "--view", "kernels")
    (alone,) = json.loads(out)["profiles"]
    # A file has no folder around it.
    none = {"names": [], "how": "none", "beside": [], "problem": None, "own": False}
    assert code == 0 and alone["capture"] == none
    path = logs / "right" / "capture_traces"
    code, out, _ = run(capsys, "report", trace, "--format", "json", "--view", "kernels", "--capture", path)
    (named,) = json.loads(out)["profiles"]
    assert code == 0 and named["capture"]["how"] == "named" and len(named["capture"]["names"]) == 1
    assert not [notice for notice in named["data_notices"] if notice["rule"].startswith("capture_")]


def test_diff_has_one_for_each_side(capsys, logs, trace):
    right, wrong = logs / "right" / "capture_traces", logs / "wrong" / "capture_traces"
    gate = ("--fail-on", "step_time>5%")
    sides = ("--base-capture", wrong, "--capture", right)
    code, out, _ = run(capsys, "diff", trace, trace, *sides, *gate, "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert [found[side]["capture"]["how"] for side in ("baseline", "experiment")] == ["named", "named"]
    told = [
        {n["rule"] for n in found[side]["data_notices"]} & {"capture_refused"} for side in ("baseline", "experiment")
    ]
    assert told == [{"capture_refused"}, set()]
    code, out, _ = run(capsys, "diff", trace, trace, *sides)
    assert code == 0 and "baseline, capture: " in out and "experiment, capture: " in out


def test_stacks_say_it_on_stderr(capsys, logs):
    code, out, err = run(capsys, "stacks", logs / "right", "--run", "right", "--weight", "device")
    assert code == 0 and out and "capture: capture_traces/bs_8/default (in the folder of the trace)" in err


def test_python(logs, trace):
    assert tb_plugin.open(trace).capture.names == []
    named = tb_plugin.open(trace, capture=str(logs / "wrong" / "capture_traces"))
    assert named.capture.how == "named" and "capture_refused" in {notice.rule for notice in named.data_notices}
    beside = tb_plugin.open(logs / "right", run="right")
    assert beside.capture.how == "beside" and beside.facts
    with pytest.raises(tb_plugin.errors.NotFoundError):
        tb_plugin.open(trace, capture="RUN/WORKER/1")


def test_a_capture_in_the_trace_itself_is_named(capsys, tmp_path):
    (sample,) = (SAMPLES / "synthetic_graphs").glob("*.json*")
    code, out, _ = run(capsys, "doctor", sample)
    assert code == 0 and "capture: in this trace" in out
