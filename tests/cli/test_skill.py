"""The skill for agents: each of its commands runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tb_plugin.cli import main


def commands(text: str) -> list[str]:
    return re.findall(r"^ *(torch-trace .+)$", text, re.MULTILINE)


def test_each_command_of_the_skill_runs(capsys):
    assert main(["skill"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("---\nname: torch-trace\n")
    found = commands(text)
    assert len(found) == 5
    ranks = [str(next(Path("samples/synthetic_ddp").glob(f"rank{rank}.*"))) for rank in (0, 1)]
    for command in found:
        words = [
            {"PATH": ranks[0], "BASE": ranks[0], "EXPERIMENT": ranks[1]}.get(word, word) for word in command.split(" ")
        ]
        assert main(shlex.split(" ".join(words))[1:]) == 0, command
        assert capsys.readouterr().out, command


@pytest.mark.parametrize("inline", ["torch-trace doctor", "torch-trace view"])
def test_the_commands_in_its_sentences_exist(capsys, inline):
    main(["skill"])
    assert inline in capsys.readouterr().out
    with pytest.raises(SystemExit, match="0"):
        main([inline.split()[1], "--help"])
