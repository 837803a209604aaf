"""Each command in the docs is understood, and those on local files run."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tb_plugin import cli
from tests.samples import SAMPLES

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = sorted({line for page in PAGES for line in re.findall(r"^torch-trace .+$", page.read_text("utf-8"), re.M)})
# Servers run until someone ends them, and other commands need a cloud or a cluster.
RUN = [line for line in COMMANDS if line.split()[1] not in ("view", "mcp") and "://" not in line.split("#")[0]]


def words_of(line: str) -> list[str]:
    return shlex.split(line.split(" > ")[0], comments=True)[1:]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_is_understood(line):
    words = words_of(line)
    assert cli._parser(words).parse_args(words).command == words[0]


@pytest.mark.parametrize("line", RUN)
def test_a_command_runs(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    one, other = (next((SAMPLES / "synthetic_ddp").glob(f"rank{rank}.*")) for rank in (0, 1))
    job = str(shutil.copytree(SAMPLES / "synthetic_ddp", tmp_path / "job"))
    names = {"PATH": str(one), "BASE": str(one), "EXP": str(other), "LOGDIR": job, "FOLDER": "tables"}
    names |= {"runs/before": str(one), "runs/after": str(other)}
    words = words_of(line)
    if "memory.cuda" in line:
        names |= dict.fromkeys(("BASE", "EXP"), str(SAMPLES / "synthetic_gpu"))
    if words[0] == "summarize":
        names["PATH"] = job
    words = [names.get(word, job if re.match(r"runs|outputs|\$SCRATCH", word) else word) for word in words]
    is_gated = "--fail-on" in words
    if "--steps" in words:
        words[words.index("--steps") + 1] = "0-1"  # the sample has fewer steps
    if "serving" in words:
        words[1] = str(SAMPLES / "synthetic_serving")
    assert cli.main(words) in ((0, 1) if is_gated else (0,)), line
    assert capsys.readouterr().out or "--output" in words or "--html" in words
