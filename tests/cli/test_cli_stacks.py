"""``torch-trace stacks``: what goes to stdout or a file, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tb_plugin import cli
from tests.builders import kernel, trace

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


@pytest.fixture
def logs(tmp_path):
    builder = trace().python("main π", 0, 100).step(1, 1, 50).step(2, 52, 40)
    builder.op("aten::mm", 5, 10).launches(kernel("gemm", 7)).op("aten::add", 60, 20).launches(kernel("sum", 6))
    builder.op("aten::sort", 0, 5, tid=2)
    for run in ("a", "b"):
        (tmp_path / "logs" / run).mkdir(parents=True)
        (tmp_path / "logs" / run / "w.1.pt.trace.json").write_bytes(builder.bytes())
    return tmp_path / "logs"


def run(capsysbinary, *arguments):
    code = cli.main(["stacks", *map(str, arguments)])
    return code, capsysbinary.readouterr().out.decode()


def test_folded(capsysbinary, logs):
    code, text = run(capsysbinary, logs / "a")
    assert code == 0
    assert text == "main π 70000\nmain π;aten::add 20000\nmain π;aten::mm 10000\naten::sort 5000\n"


def test_choices(capsysbinary, logs):
    assert (
        run(capsysbinary, logs, "--run", "a", "--weight", "device")[1]
        == "main π;aten::mm 7000\nmain π;aten::add 6000\n"
    )
    assert run(capsysbinary, logs / "a", "--of", "python")[1] == "main π 100000\n"
    assert run(capsysbinary, logs / "a", "--of", "operators", "--steps", "2")[1] == "aten::add 20000\n"
    assert run(capsysbinary, logs / "a", "--thread", "1:2")[1] == "aten::sort 5000\n"
    assert run(capsysbinary, logs / "a", "--thread", "1:2", "--thread", "1:1") == run(capsysbinary, logs / "a")
    assert run(capsysbinary, logs / "a", "--window", "2", "--of", "operators")[1] == "aten::add 20000\n"


def test_a_file(capsysbinary, logs, tmp_path):
    target = tmp_path / "out.json"
    assert run(capsysbinary, logs / "b", "--format", "speedscope", "--output", target) == (0, "")
    document = json.loads(target.read_bytes())
    assert [profile["endValue"] for profile in document["profiles"]] == [100_000, 5_000]
    assert run(capsysbinary, logs / "b", "--output", tmp_path / "no" / "folder")[0] == 3
    assert target.read_bytes()


def test_exit_codes(capsys, logs, tmp_path):
    assert cli.main(["stacks", str(logs)]) == 2
    assert "There are 2 runs. Choose one: a, b." in capsys.readouterr().err
    assert cli.main(["stacks", str(logs / "a"), "--steps", "9"]) == 2
    assert cli.main(["stacks", str(logs / "a"), "--thread", "9"]) == 2
    assert cli.main(["stacks", str(logs / "a"), "--thread", "2", "--weight", "device"]) == 3
    assert "No stack has device time" in capsys.readouterr().err
    assert cli.main(["stacks", str(logs), "--run", "c"]) == 3
    assert cli.main(["stacks", str(tmp_path / "none")]) == 3
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    assert cli.main(["stacks", str(tmp_path / "config.json")]) == 3
    assert "does not look like a profiler trace" in capsys.readouterr().err
    folded = next((SAMPLES / "export_stacks_cpu").iterdir())
    assert cli.main(["stacks", str(folded)]) == 3
    assert "This profile is a stack file, but a trace is required." in capsys.readouterr().err
    for usage in (["stacks"], ["stacks", "x", "--of", "y"], ["stacks", "x", "--format", "svg"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(usage)
        assert caught.value.code == 2
